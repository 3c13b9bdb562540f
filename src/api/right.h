// The right to use a route of the HTTP API. docs/api/openapi.yaml calls it x-right.
#pragma once

namespace gpuman::api {

enum class Right {
  kAnybody,     // everybody who can open the socket
  kSee,         // users of the daemon
  kSubmit,      // users who may start jobs
  kControlJob,  // the owner of the job that the path names, and administrators
  kReadLog,     // the same, for the job's output
  kManage,      // administrators
  kByRequest,   // users of the daemon; the rest depends on what the request asks for
};

}  // namespace gpuman::api
