// How memory passes between a process and the mover. The process connects to the daemon's socket when it is
// ordered to, and the daemon passes the connection on to the mover. See docs/shim-protocol.md.
//
// The process sends `message >`, the mover sends `< message`:
//   out:   hello kOut >   parts (a descriptor of device memory each) >   < replies (host memory)   receipt >
//   back:  hello kBack >  < parts (a descriptor each; without any part: wait on)   receipt >
//
// Where the driver does not import the mover's memory (the process was moved to another GPU), the process
// makes memory of its own, and the mover fills it:
//   back:  … < parts   own >  < done   parts (its own memory) >  < done (filled)   receipt >
// Where the mover knows that the process was moved, it asks for this at once, with no parts and `more` 1.
//
// Either side gives up by closing the connection; then nothing has happened. The process gives up its device
// memory after the last reply, and the mover gives up the host memory after the receipt. A process may hand
// out its memory in several transfers, each with memory of one GPU, and gets all of it back in one. The
// layout is plain C.
#pragma once

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace gpuman::ledger::wire {

// A ShimHello has one of these words in place of kHelloMagic.
inline constexpr std::uint32_t kOutMagic = 0x4f4d5047;   // "GPMO"
inline constexpr std::uint32_t kBackMagic = 0x424d5047;  // "GPMB"
// A notification: nothing follows this ShimHello. The slot of the process holds what is new: what the program
// does, and the answer to an order (kNotifiesAnswers).
inline constexpr std::uint32_t kNotifyMagic = 0x444d5047;  // "GPMD"

inline constexpr std::uint32_t kPartsMagic = 0x504d5047;  // "GPMP"
inline constexpr std::uint32_t kReplyMagic = 0x524d5047;  // "GPMR"
inline constexpr unsigned kMaxParts = 32;                 // in one message; also the most descriptors
inline constexpr unsigned kMaxSegments = 1024;            // in one process's host memory

struct TransferPart {
  std::uint64_t address;  // where the process has the part
  std::uint64_t bytes;
};

// The message carries one descriptor for each part, in the order of the parts.
struct TransferParts {
  std::uint32_t magic;
  std::uint32_t count;
  std::uint32_t last;  // 1: this is the last message of parts
  // Out: 1 where memory that the process handed out before, of any GPU, is still evicted. Back: 1 where the
  // process has to make memory of its own.
  std::uint32_t more;
  std::uint64_t total;  // out: bytes of all parts of this transfer
  TransferPart part[kMaxParts];
};

// From the mover: `count` descriptors of host memory; with `count` 0, the mover has done its part. From the
// process: the receipt. With `last` 0 it means `own`: the process cannot import the memory, and the mover has
// to fill memory that the process makes.
struct TransferReply {
  std::uint32_t magic;
  std::uint32_t count;
  std::uint32_t last;   // 1: no more messages follow
  std::uint32_t error;  // PackError (orders.h): the transfer failed, and nothing was done
};

static_assert(sizeof(TransferPart) == 16 && sizeof(TransferParts) == 24 + kMaxParts * 16 &&
              sizeof(TransferReply) == 16);

// Returns the time of CLOCK_MONOTONIC.
inline std::int64_t MonotonicMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// EndAfter returns when a wait of `milliseconds` ends, in the time of MonotonicMs; below 0: kNever.
inline constexpr std::int64_t kNever = INT64_MAX;
inline std::int64_t EndAfter(int milliseconds) {
  return milliseconds < 0 ? kNever : MonotonicMs() + milliseconds;
}

// Waits for one of the events. Returns whether one came before `end`. The program's signals may interrupt the
// wait any number of times.
inline bool AwaitEvents(int socket, short events, std::int64_t end) {
  for (;;) {
    const std::int64_t left = end == kNever ? -1 : end - MonotonicMs();
    const int milliseconds = end == kNever ? -1 : left > 0 ? static_cast<int>(left) : 0;
    pollfd entry{socket, events, 0};
    const int ready = ::poll(&entry, 1, milliseconds);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR || milliseconds == 0) return false;
  }
}

// Sends one message with descriptors (at most kMaxParts) on a seqpacket socket. Returns false where the other
// side has closed, or does not read within `milliseconds` (below 0: it waits without end).
inline bool SendWith(int socket, const void* data, std::size_t size, const int* descriptors, unsigned count,
                     int milliseconds) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxParts * sizeof(int))] = {};
  if (count > kMaxParts) return false;
  iovec part{const_cast<void*>(data), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count != 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    __builtin_memcpy(CMSG_DATA(header), descriptors, count * sizeof(int));
  }
  const std::int64_t end = EndAfter(milliseconds);
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == static_cast<ssize_t>(size)) return true;
    if (sent >= 0) return false;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (!AwaitEvents(socket, POLLOUT, end)) return false;
  }
}

// Receives one message. Returns the message's size; 0: the other side has closed; below 0: an error, or no
// message came within `milliseconds` (below 0: it waits without end). `count` is how many descriptors came;
// they are close-on-exec. A descriptor that did not fit into the process's table of descriptors is missing.
inline ssize_t ReceiveWith(int socket, void* data, std::size_t size, int* descriptors, unsigned& count,
                           int milliseconds) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxParts * sizeof(int))];
  count = 0;
  const std::int64_t end = EndAfter(milliseconds);
  for (;;) {
    iovec part{data, size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!AwaitEvents(socket, POLLIN, end)) return -1;
      continue;
    }
    if (got <= 0) return got;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
      for (std::size_t at = 0; at + sizeof(int) <= bytes && count < kMaxParts; at += sizeof(int))
        __builtin_memcpy(&descriptors[count++], CMSG_DATA(header) + at, sizeof(int));
    }
    return got;
  }
}

}  // namespace gpuman::ledger::wire
