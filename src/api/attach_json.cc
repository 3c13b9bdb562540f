#include "api/attach_json.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "api/ask.h"
#include "api/json_codec.h"
#include "base/json.h"

namespace gpuman::api {

constexpr bool IsRequest(const AttachRequest*) { return true; }

template <typename V, base::json::Of<AttachRequest> T>
void Fields(V& v, T& x) {
  v.Required("pid", x.pid);
  v.Required("tag", x.tag);
  v.Option("uid", x.uid);
  v.Changed("command", x.command, {});
  v.Changed("gpus", x.gpus, {});
  v.Option("at_most", x.at_most);
  spec::AttachOptionFields(v, x);
}

template <typename V, base::json::Of<AttachAnswer> T>
void Fields(V& v, T& x) {
  v.Required("id", x.id);
  v("tag", x.tag);
  v("gpus", x.gpus);
  v.Required("environment", x.environment);
}

GPUMAN_CODEC(AttachRequest);
GPUMAN_CODEC(AttachAnswer);

base::Result<AttachAnswer> Attach(const std::filesystem::path& socket, const AttachRequest& request,
                                  base::Millis patience) {
  using Clock = std::chrono::steady_clock;
  constexpr base::Millis kPause{20};
  const auto end = Clock::now() + patience;
  const HttpRequest question = RequestFor(routes::kAttach, {}, request);
  // A daemon that ends removes its socket, one that is killed leaves it.
  const auto is_left = [&] {
    std::error_code ignored;
    return std::filesystem::exists(socket, ignored);
  };
  for (bool daemon_was_there = false;;) {
    daemon_was_there = daemon_was_there || is_left();
    HttpOptions options;
    options.patience = std::max(std::chrono::ceil<base::Millis>(end - Clock::now()), base::Millis(0));
    const auto answer = Exchange(socket, question, options);
    if (answer) {
      GPUMAN_ASSIGN(const HttpAnswer successful, Successful(answer));
      // If the call does not understand the answer, it returns kInvalidArgument: the caller must not go on
      // as if gpumand did not run.
      return Decode<AttachAnswer>(successful.body);
    }
    // The next daemon may just be replacing the socket.
    daemon_was_there = daemon_was_there || is_left();
    const bool may_come = daemon_was_there && answer.error().code == base::ErrorCode::kUnavailable;
    if (!may_come || Clock::now() + kPause >= end) return base::Fail(answer.error());
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace gpuman::api
