// The daemon as its clients ask it: by the routes of routes.h (ask.h), and by functions for what takes more
// than one question.
//
// Each call is one blocking exchange over the unix socket. Errors of the daemon come back in its words;
// kUnavailable and kTimeout mean that the client could not ask the daemon. A job is named by id or tag, a GPU
// by index, UUID or the beginning of a UUID. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "api/types.h"
#include "base/fd.h"
#include "base/result.h"

namespace gpuman::api {

struct RunOptionsPatch;  // queue_types.h

struct LogOptions {
  bool follow = false;
  std::optional<std::uint64_t> tail;    // lines; absent: from the beginning
  std::optional<std::uint64_t> offset;  // bytes to skip
  // Called before any part of the answer, with the offset in the log, in bytes, at which the answer begins.
  std::function<void(std::uint64_t)> begins{};
};

struct EventOptions {
  std::optional<std::int64_t> since;     // only later events, by id
  std::optional<base::WallTime> from{};  // only events of this time and later
  std::optional<int> limit;
  std::vector<std::string> jobs{};  // only of the jobs with these ids; empty: all events
};

// Ends a long wait from outside; see HttpOptions.
struct WaitCancellation {
  int fd = -1;
  std::function<bool()> on_wake;
};

class Client {
 public:
  // `connection`: an open connection to `socket`, for the first call.
  explicit Client(std::filesystem::path socket, base::Fd connection = {})
      : socket_(std::move(socket)), connection_(std::move(connection)) {}

  const std::filesystem::path& socket() const { return socket_; }
  // `take` gets what the daemon notes for the person who asks, from now on.
  void OnNote(std::function<void(std::string_view)> take) { take_note_ = std::move(take); }

  base::Result<VersionView> Version() const;
  base::Result<StatusView> Status(bool all) const;
  base::Result<GpuList> Gpus() const;
  // With `all` the client asks for ended jobs too, page by page. Otherwise it asks once, and the answer has
  // at most some thousand waiting jobs.
  base::Result<JobList> Jobs(bool all) const;
  base::Result<JobView> Job(std::string_view job) const;
  // Waits until a running job has stopped, which may take its grace time.
  base::Result<JobView> Restart(std::string_view job, const RunOptionsPatch& changes) const;
  // Returns once the job has ended.
  base::Result<JobView> Wait(std::string_view job, const WaitCancellation& wake = {}) const;
  // Returns at the end of the log; with `follow`, that is when the job ends.
  base::Result<> Log(std::string_view job, const LogOptions& options, const BodySink& sink,
                     const WaitCancellation& wake = {}) const;
  base::Result<EventList> Events(const EventOptions& options) const;
  // Gives `take` the past events that `options` select, then new events, until `take` returns false or the
  // daemon ends.
  base::Result<> FollowEvents(const EventOptions& options, const std::function<bool(EventView)>& take) const;

  // One exchange, of a request that api/ask.h made. An answer that is an error becomes an Error.
  base::Result<HttpAnswer> AskRaw(const HttpRequest& request, const HttpOptions& options = {}) const;

 private:
  base::Result<> AddPages(std::vector<JobView>& jobs) const;

  std::filesystem::path socket_;
  mutable base::Fd connection_;
  std::function<void(std::string_view)> take_note_;
};

}  // namespace gpuman::api
