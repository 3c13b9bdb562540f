#include "api/attach_json.h"

#include <algorithm>
#include <thread>

#include "api/json_codec.h"
#include "api/json_fields.h"

namespace gpuman::api {

constexpr bool IsRequest(const AttachRequest*) { return true; }

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, AttachRequest>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v.Required("tag", x.tag);
  v.Option("uid", x.uid);
  v.Changed("command", x.command, {});
  v.Changed("gpus", x.gpus, {});
  v.Option("memory", x.memory);
  v.Option("at_most", x.at_most);
  v.Option("soft", x.soft);
  v.Changed("preload", x.preload, true);
  v.Changed("share", x.share, false);
}

template <typename V, typename T>
requires std::same_as<std::remove_const_t<T>, Attached>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("tag", x.tag);
  v("gpus", x.gpus);
  v.Required("environment", x.environment);
}

Json ToJson(const AttachRequest& value) { return fields::Write(value); }
Json ToJson(const Attached& value) { return fields::Write(value); }
GPUMAN_CODEC(AttachRequest);
GPUMAN_CODEC(Attached);

namespace {

base::Result<Attached> ReadAnswer(const HttpAnswer& answer) {
  if (answer.status < 200 || answer.status >= 300)
    return base::Fail(ErrorOfAnswer(answer.status, answer.body));
  return Decode<Attached>(answer.body);
}

}  // namespace

base::Result<Attached> Attach(const std::filesystem::path& socket, const AttachRequest& request,
                              base::Millis patience) {
  constexpr base::Millis kPause{50};
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + patience;
  const auto left = [&] { return std::chrono::ceil<base::Millis>(deadline - Clock::now()); };
  const HttpRequest message{"POST", "/v1/attachments", Encode(request)};
  for (bool was_there = false;;) {
    auto connection = ConnectTo(socket);
    was_there = was_there || connection;
    base::Result<HttpAnswer> answer;
    if (connection) {
      HttpOptions options;
      options.patience = std::max(left(), base::Millis(0));
      answer = Exchange(std::move(*connection), message, options);
    } else {
      answer = base::Fail(std::move(connection.error()));
    }
    if (answer) return ReadAnswer(*answer);
    const bool is_restarted = was_there && answer.error().code == base::ErrorCode::kUnavailable;
    if (!is_restarted || left() <= kPause) return base::Fail(std::move(answer.error()));
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace gpuman::api
