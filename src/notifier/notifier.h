// gpuman-notifier: sends what the daemon orders and reports the result (notify/wire.h). It is a process of
// its own, so that libraries for TLS, names and mail, and what they read from strangers, are not in the
// daemon; it is started when there is something to send, and ends soon after.
#pragma once

namespace gpuman::notifier {

// If root started it, it becomes nobody first. Returns the exit status, once the daemon has closed the
// socket.
int Run();

}  // namespace gpuman::notifier
