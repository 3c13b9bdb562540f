// gpuman-notifier sends the messages that the daemon orders, and reports the results (notify/wire.h). It is a
// separate process, so that libraries for TLS, names and mail, and the data that they read from the network,
// are not in the daemon. The daemon starts the notifier when there are messages to send; the notifier ends
// soon after.
#pragma once

namespace gpuman::notifier {

// If root started the process, it first changes to the user "nobody". Run returns the exit status after the
// daemon has closed the socket.
int Run();

}  // namespace gpuman::notifier
