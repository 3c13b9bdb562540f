#include "api/attach_json.h"

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

base::Result<Attached> Attach(const std::filesystem::path& socket, const AttachRequest& request,
                              base::Millis patience) {
  HttpOptions options;
  options.patience = patience;
  GPUMAN_ASSIGN(const auto answer, Exchange(socket, {"POST", "/v1/attachments", Encode(request)}, options));
  if (answer.status < 200 || answer.status >= 300)
    return base::Fail(ErrorOfAnswer(answer.status, answer.body));
  return Decode<Attached>(answer.body);
}

}  // namespace gpuman::api
