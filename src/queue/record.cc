#include "queue/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "base/json_number.h"

namespace gpuman::queue {
namespace {

using base::ErrorCode;
using base::Fail;
using Json = nlohmann::json;

constexpr int kVersion = 1;

// A field as JSON and back; a wrong type throws Json::exception or std::string.
template <typename T>
struct Codec {
  static Json To(const T& value) { return value; }
  static T From(const Json& json) {
    if constexpr (std::is_same_v<T, bool>) {
      return json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_integer()) throw std::string("is no whole number");
      const auto number = base::WholeNumber<T>(json);
      if (!number) throw std::string("is out of range");
      return *number;
    } else {
      return base::Checked<T>(json);
    }
  }
};
template <>
struct Codec<base::Bytes> {
  static Json To(base::Bytes bytes) { return bytes.count; }
  static base::Bytes From(const Json& json) { return {Codec<std::uint64_t>::From(json)}; }
};
template <>
struct Codec<Millis> {
  static Json To(Millis time) { return time.count(); }
  static Millis From(const Json& json) { return Millis(Codec<std::int64_t>::From(json)); }
};
template <>
struct Codec<WallTime> {
  static Json To(WallTime time) { return time.time_since_epoch().count(); }
  static WallTime From(const Json& json) { return WallTime(Codec<Millis>::From(json)); }
};
template <>
struct Codec<JobId> {
  static Json To(JobId id) { return id.value; }
  static JobId From(const Json& json) { return {Codec<std::int64_t>::From(json)}; }
};
template <>
struct Codec<DependencyMode> {
  static Json To(DependencyMode mode) { return ToString(mode); }
  static DependencyMode From(const Json& json) {
    const auto mode = DependencyModeFromString(json.get<std::string>());
    if (!mode) throw std::string("is no known word");
    return *mode;
  }
};
template <>
struct Codec<NotifyOn> {
  static Json To(NotifyOn event) { return ToString(event); }
  static NotifyOn From(const Json& json) {
    const auto event = NotifyOnFromString(json.get<std::string>());
    if (!event) throw std::string("is no known word");
    return *event;
  }
};
template <>
struct Codec<Dependency> {
  static Json To(const Dependency& each) { return Json::array({ToString(each.kind), each.job.value}); }
  static Dependency From(const Json& json) {
    if (!json.is_array() || json.size() != 2) throw std::string("is no kind and job");
    const auto kind = DependencyKindFromString(json[0].get<std::string>());
    if (!kind) throw std::string("is no known word");
    return {*kind, Codec<JobId>::From(json[1])};
  }
};
template <typename T>
struct Codec<std::optional<T>> {
  static Json To(const std::optional<T>& value) { return Codec<T>::To(*value); }
  static std::optional<T> From(const Json& json) { return Codec<T>::From(json); }
};
template <typename T>
struct Codec<std::vector<T>> {
  static Json To(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(Codec<T>::To(value));
    return array;
  }
  static std::vector<T> From(const Json& json) {
    if (!json.is_array()) throw std::string("is no list");
    std::vector<T> values;
    for (const Json& each : json) values.push_back(Codec<T>::From(each));
    return values;
  }
};

class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& value, const std::type_identity_t<T>& usual) {
    if (!(value == usual)) json[name] = Codec<T>::To(value);
  }
  template <typename T, typename List>
  void Group(const char* name, const T& value, List list) {
    Writer inner;
    list(inner, value, T{});
    if (!inner.json.empty()) json[name] = std::move(inner.json);
  }

  Json json = Json::object();
};

// Takes fields out of `json`; fields that are left at the end are unknown.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {
    if (!json.is_object()) throw std::string("is no object");
  }
  template <typename T>
  void operator()(const char* name, T& value, const std::type_identity_t<T>& /*usual*/) {
    const Json* found = Find(name);
    if (!found) return;
    try {
      value = Codec<T>::From(*found);
    } catch (const Json::exception&) {
      throw fmt::format("{} has a wrong type", name);
    } catch (const std::string& what) {
      throw fmt::format("{} {}", name, what);
    }
  }
  template <typename T, typename List>
  void Group(const char* name, T& value, List list) {
    const Json* found = Find(name);
    if (!found) return;
    Reader inner(*found);
    list(inner, value, T{});
    inner.Finish();
  }
  const Json* Find(const char* name) {
    known_.insert(name);
    const auto it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }
  void Finish() const {
    for (const auto& item : json_.items())
      if (!known_.contains(item.key())) throw fmt::format("{} is no known field", item.key());
  }

 private:
  const Json& json_;
  std::set<std::string, std::less<>> known_{};
};

// The fields, listed once for both ways: Writer with a const object, Reader with one to fill.
constexpr auto kGpuFields = [](auto& visit, auto& gpus, const GpuRequest& usual) {
  visit("count", gpus.count, usual.count);
  visit("devices", gpus.devices, usual.devices);
  visit("model", gpus.model, usual.model);
  visit("free_memory", gpus.free_memory, usual.free_memory);
};
constexpr auto kDependsFields = [](auto& visit, auto& depends, const Dependencies& usual) {
  visit("mode", depends.mode, usual.mode);
  visit("list", depends.list, usual.list);
  visit("auto_cancel", depends.auto_cancel, usual.auto_cancel);
};
constexpr auto kArrayFields = [](auto& visit, auto& array, const ArrayTask& usual) {
  visit("id", array.array, usual.array);
  visit("task", array.task, usual.task);
  visit("limit", array.limit, usual.limit);
};
constexpr auto kGroupFields = [](auto& visit, auto& group, const Group& usual) {
  visit("name", group.name, usual.name);
  visit("limit", group.limit, usual.limit);
};
constexpr auto kRetryFields = [](auto& visit, auto& retries, const Retries& usual) {
  visit("count", retries.count, usual.count);
  visit("delay_ms", retries.delay, usual.delay);
  visit("on_exit_codes", retries.on_exit_codes, usual.on_exit_codes);
};
constexpr auto kNotifyFields = [](auto& visit, auto& notify, const Notify& usual) {
  visit("webhooks", notify.webhooks, usual.webhooks);
  visit("mails", notify.mails, usual.mails);
  visit("on", notify.on, usual.on);
};
constexpr auto kFields = [](auto& visit, auto& request, const Request& usual) {
  visit("project", request.project, usual.project);
  visit("script", request.script, usual.script);
  visit("stdin", request.standard_input, usual.standard_input);
  visit("stdout", request.standard_output, usual.standard_output);
  visit("stderr", request.standard_error, usual.standard_error);
  visit("conda_env", request.conda_env, usual.conda_env);
  visit("device_profile", request.device_profile, usual.device_profile);
  visit.Group("gpus", request.gpus, kGpuFields);
  visit("share", request.share, usual.share);
  visit("memory", request.memory, usual.memory);
  visit("host_memory", request.host_memory, usual.host_memory);
  visit("cpus", request.cpus, usual.cpus);
  visit("time_limit_ms", request.time_limit, usual.time_limit);
  visit("warn_signal", request.warn_signal, usual.warn_signal);
  visit("warn_before_ms", request.warn_before, usual.warn_before);
  visit("begin", request.begin, usual.begin);
  visit("priority", request.priority, usual.priority);
  visit("hold", request.hold, usual.hold);
  visit("preemptible", request.preemptible, usual.preemptible);
  visit.Group("depends", request.depends, kDependsFields);
  visit.Group("group", request.group, kGroupFields);
  visit.Group("retries", request.retries, kRetryFields);
  visit.Group("notify", request.notify, kNotifyFields);
};

Request Read(const Json& json) {
  Request request;
  Reader reader(json);
  int version = 0;
  reader("v", version, 0);
  if (version != kVersion) throw fmt::format("it is of version {}; this gpuman knows {}", version, kVersion);
  kFields(reader, request, Request{});
  if (const Json* array = reader.Find("array")) {
    Reader inner(*array);
    kArrayFields(inner, request.array.emplace(), ArrayTask{});
    inner.Finish();
  }
  reader.Finish();
  return request;
}

}  // namespace

std::string SerializeRequest(const Request& request) {
  Writer writer;
  kFields(writer, request, Request{});
  if (request.array) {
    Writer inner;
    kArrayFields(inner, *request.array, ArrayTask{});
    writer.json["array"] = std::move(inner.json);
  }
  writer.json["v"] = kVersion;
  return writer.json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

base::Result<Request> ParseRequest(std::string_view text) {
  try {
    Request request = Read(Json::parse(text));
    if (auto valid = Validate(request); !valid)
      return Fail(ErrorCode::kCorrupt, "a stored request cannot be used: " + valid.error().message);
    return request;
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kCorrupt, fmt::format("a stored request cannot be read: {}", error.what()));
  } catch (const std::string& what) {
    return Fail(ErrorCode::kCorrupt, "a stored request cannot be read: " + what);
  }
}

}  // namespace gpuman::queue
