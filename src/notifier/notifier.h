// gpuman-notifier: sends what the daemon orders and says how it went (notify/wire.h). A process of its own,
// so that libraries for TLS, names and mail, and what they read from strangers, are not in the daemon;
// started when there is something to send, and ended soon after.
#pragma once

namespace gpuman::notifier {

// Where it was started by root it becomes nobody first. Returns the exit status, once the daemon has closed
// the socket.
int Run();

}  // namespace gpuman::notifier
