// What a real driver does with memory that passes between processes by descriptors: the questions that the
// mover (src/mover) depends on and that are not measured yet. Needs libcuda.so.1 at run time and no header of
// it.
//
//   g++ -O2 -std=c++20 -pthread handles_probe.cc -ldl -o handles_probe
//   handles_probe [GIB [PIECE_MIB]]     (10 and 1024)
//
// Prints one line for each question: its name, the driver's answers (0: success) and seconds. A child (this
// program again) holds the memory; the first process copies and checkpoints it.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Result = int;
using Address = unsigned long long;
using Handle = unsigned long long;
struct Location {
  int type, id;
};
struct Properties {
  int type, handle_types;
  Location location;
  void* windows;
  unsigned char flags[8];
};
struct Access {
  Location location;
  int flags;
};
struct Checkpoint {
  unsigned char bytes[64];
};

#define CALLS(X)                                                                          \
  X(cuInit, unsigned)                                                                     \
  X(cuDevicePrimaryCtxRetain, void**, int)                                                \
  X(cuCtxSetCurrent, void*)                                                               \
  X(cuCtxSynchronize, void)                                                               \
  X(cuMemCreate, Handle*, std::size_t, const Properties*, unsigned long long)             \
  X(cuMemRelease, Handle)                                                                 \
  X(cuMemAddressReserve, Address*, std::size_t, std::size_t, Address, unsigned long long) \
  X(cuMemMap, Address, std::size_t, std::size_t, Handle, unsigned long long)              \
  X(cuMemUnmap, Address, std::size_t)                                                     \
  X(cuMemSetAccess, Address, std::size_t, const Access*, std::size_t)                     \
  X(cuMemExportToShareableHandle, void*, Handle, int, unsigned long long)                 \
  X(cuMemImportFromShareableHandle, Handle*, void*, int)                                  \
  X(cuMemGetInfo_v2, std::size_t*, std::size_t*)                                          \
  X(cuMemsetD32_v2, Address, unsigned, std::size_t)                                       \
  X(cuMemcpyDtoH_v2, void*, Address, std::size_t)                                         \
  X(cuMemcpyDtoHAsync_v2, void*, Address, std::size_t, void*)                             \
  X(cuMemcpyHtoDAsync_v2, Address, const void*, std::size_t, void*)                       \
  X(cuStreamCreate, void**, unsigned)                                                     \
  X(cuStreamSynchronize, void*)                                                           \
  X(cuMemHostRegister_v2, void*, std::size_t, unsigned)                                   \
  X(cuCheckpointProcessLock, int, Checkpoint*)                                            \
  X(cuCheckpointProcessCheckpoint, int, Checkpoint*)                                      \
  X(cuCheckpointProcessRestore, int, Checkpoint*)                                         \
  X(cuCheckpointProcessUnlock, int, Checkpoint*)
#define DECLARE(name, ...) Result (*name)(__VA_ARGS__);
CALLS(DECLARE)

constexpr std::size_t kMiB = 1u << 20, kGiB = 1u << 30;
constexpr int kDescriptor = 1, kPortable = 1, kBatch = 200;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
Result Try(const char* what, Result result) {
  if (result != 0) std::printf("  %s -> %d\n", what, result);
  return result;
}
#define TRY(call) Try(#call, call)

void Load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::puts(dlerror());
    std::exit(1);
  }
#define RESOLVE(name, ...) name = reinterpret_cast<decltype(name)>(dlsym(library, #name));
  CALLS(RESOLVE)
  void* context = nullptr;
  if (TRY(cuInit(0)) != 0 || TRY(cuDevicePrimaryCtxRetain(&context, 0)) != 0) std::exit(1);
  cuCtxSetCurrent(context);
}

void SendFiles(int socket, const std::vector<int>& files) {
  for (std::size_t i = 0; i < files.size(); i += kBatch) {
    const std::size_t n = std::min<std::size_t>(kBatch, files.size() - i);
    char byte = 0, control[CMSG_SPACE(kBatch * sizeof(int))] = {};
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(n * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(n * sizeof(int));
    std::memcpy(CMSG_DATA(header), &files[i], n * sizeof(int));
    if (sendmsg(socket, &message, 0) < 0) std::perror("sendmsg");
  }
}

std::vector<int> ReceiveFiles(int socket, std::size_t total) {
  std::vector<int> files;
  while (files.size() < total) {
    char byte = 0, control[CMSG_SPACE(kBatch * sizeof(int))];
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = recvmsg(socket, &message, 0) > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (header == nullptr) std::exit(1);
    const std::size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int), at = files.size();
    files.resize(at + n);
    std::memcpy(&files[at], CMSG_DATA(header), n * sizeof(int));
  }
  return files;
}
void CloseAll(std::vector<int>& files) {
  for (const int file : files) close(file);
  files.clear();
}

struct Region {
  Address base = 0;
  std::size_t piece = 0;
  std::vector<Handle> handles;
  std::size_t bytes() const { return piece * handles.size(); }

  void Reserve() { TRY(cuMemAddressReserve(&base, 128 * kGiB, 2 * kMiB, 0, 0)); }
  void Create(std::size_t count) {
    Properties properties{};
    properties.type = 1;
    properties.handle_types = kDescriptor;
    properties.location = {1, 0};
    handles.assign(count, 0);
    for (auto& handle : handles) TRY(cuMemCreate(&handle, piece, &properties, 0));
    Map();
  }
  void Import(const std::vector<int>& files) {
    handles.assign(files.size(), 0);
    for (std::size_t i = 0; i < files.size(); ++i)
      TRY(cuMemImportFromShareableHandle(&handles[i], reinterpret_cast<void*>(std::intptr_t{files[i]}),
                                         kDescriptor));
    Map();
  }
  std::vector<int> Export() const {
    std::vector<int> files;
    for (const Handle handle : handles) {
      int file = -1;
      TRY(cuMemExportToShareableHandle(&file, handle, kDescriptor, 0));
      files.push_back(file);
    }
    return files;
  }
  void Map() {
    for (std::size_t i = 0; i < handles.size(); ++i) TRY(cuMemMap(base + i * piece, piece, 0, handles[i], 0));
    const Access access{{1, 0}, 3};
    TRY(cuMemSetAccess(base, bytes(), &access, 1));
  }
  void Drop() {
    for (std::size_t i = 0; i < handles.size(); ++i) {
      TRY(cuMemUnmap(base + i * piece, piece));
      TRY(cuMemRelease(handles[i]));
    }
    handles.clear();
  }
  static unsigned Pattern(std::size_t i) { return static_cast<unsigned>(i * 2654435761u + 12345); }
  void Fill() {
    for (std::size_t i = 0; i < handles.size(); ++i) cuMemsetD32_v2(base + i * piece, Pattern(i), piece / 4);
    cuCtxSynchronize();
  }
  std::size_t Wrong() const {
    std::vector<unsigned> words(kMiB / 4);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      for (const std::size_t at : {std::size_t{0}, piece - kMiB}) {
        if (cuMemcpyDtoH_v2(words.data(), base + i * piece + at, kMiB) != 0) return SIZE_MAX;
        for (const unsigned word : words) wrong += word != Pattern(i);
      }
    }
    return wrong;
  }
};

// The commands to the child, and its answers.
enum Verb : int { kTake, kHandOut, kExport, kAdopt, kCheck, kDropAll, kCloseKept, kEnd };
struct Message {
  Verb verb;
  std::size_t count, piece, keep, wrong;
  double export_s, drop_s, import_s;
};

[[noreturn]] void RunProgram(int socket) {
  Load();
  Region region;
  region.Reserve();
  std::vector<int> kept;
  Message message{};
  send(socket, &message, sizeof message, 0);
  while (recv(socket, &message, sizeof message, 0) > 0) {
    double begin = Now();
    switch (message.verb) {
      case kTake:
        region.piece = message.piece;
        region.Create(message.count);
        region.Fill();
        break;
      case kHandOut: {
        auto files = kept.empty() ? region.Export() : kept;
        kept.clear();
        message.export_s = Now() - begin;
        SendFiles(socket, files);
        if (message.keep != 0)
          kept = files;
        else
          CloseAll(files);
        begin = Now();
        region.Drop();
        message.drop_s = Now() - begin;
        break;
      }
      case kExport: {
        auto files = region.Export();
        SendFiles(socket, files);
        CloseAll(files);
        break;
      }
      case kAdopt: {
        auto files = ReceiveFiles(socket, message.count);
        region.piece = message.piece;
        region.Import(files);
        message.import_s = Now() - begin;
        CloseAll(kept);
        if (message.keep != 0)
          kept = files;
        else
          CloseAll(files);
        break;
      }
      case kCheck:
        message.wrong = region.Wrong();
        break;
      case kDropAll:
        region.Drop();
        CloseAll(kept);
        break;
      case kCloseKept:
        CloseAll(kept);
        break;
      case kEnd:
        _exit(0);
    }
    send(socket, &message, sizeof message, 0);
  }
  _exit(0);
}

class Target {
 public:
  Target() {
    int pair[2];
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
    std::fflush(stdout);
    pid_ = fork();
    if (pid_ == 0) {
      const auto number = std::to_string(pair[1]);
      execl("/proc/self/exe", "handles_probe", "child", number.c_str(), nullptr);
      _exit(9);
    }
    close(pair[1]);
    socket_ = pair[0];
    Hear();
  }
  ~Target() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(socket_);
  }
  int socket() const { return socket_; }
  void Tell(Message message) const { send(socket_, &message, sizeof message, 0); }
  Message Hear() const {
    Message message{};
    if (recv(socket_, &message, sizeof message, 0) <= 0) {
      std::puts("  the child is gone");
      std::exit(1);
    }
    return message;
  }
  Message Ask(const Message& message) const {
    Tell(message);
    return Hear();
  }
  std::size_t Wrong() const { return Ask({kCheck, 0, 0, 0, 0, 0, 0, 0}).wrong; }
  // Locks and checkpoints; `seconds` receives the time.
  Result Out(double& seconds) const {
    Checkpoint lock{}, none{}, unlock{};
    const unsigned timeout_ms = 10'000;
    std::memcpy(lock.bytes, &timeout_ms, sizeof timeout_ms);
    const double begin = Now();
    Result result = TRY(cuCheckpointProcessLock(pid_, &lock));
    if (result == 0) {
      result = TRY(cuCheckpointProcessCheckpoint(pid_, &none));
      if (result != 0) TRY(cuCheckpointProcessUnlock(pid_, &unlock));
    }
    seconds = Now() - begin;
    return result;
  }
  Result Back(double& seconds) const {
    Checkpoint restore{}, unlock{};
    const double begin = Now();
    const Result result = TRY(cuCheckpointProcessRestore(pid_, &restore));
    TRY(cuCheckpointProcessUnlock(pid_, &unlock));
    seconds = Now() - begin;
    return result;
  }

 private:
  pid_t pid_ = 0;
  int socket_ = -1;
};

struct Arena {
  char* at = nullptr;
  std::size_t bytes = 0;

  explicit Arena(std::size_t size) : bytes(size) {
    const int file = memfd_create("arena", 0);
    if (ftruncate(file, static_cast<off_t>(bytes)) != 0) std::perror("ftruncate");
    at = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    const double begin = Now();
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    threads.reserve(8);
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (std::size_t from; (from = next.fetch_add(kGiB)) < bytes;)
          for (std::size_t o = from; o < std::min(bytes, from + kGiB); o += 4096) at[o] = 1;
      });
    for (auto& thread : threads) thread.join();
    const double touched = Now();
    for (std::size_t o = 0; o < bytes; o += kGiB)
      TRY(cuMemHostRegister_v2(at + o, std::min(kGiB, bytes - o), kPortable));
    std::printf("host memory of %zu GiB: touched %.2f s, registered %.2f s\n", bytes / kGiB, touched - begin,
                Now() - touched);
  }
  double Copy(const Region& region, bool out) const {
    void* stream = nullptr;
    cuStreamCreate(&stream, 1);
    const double begin = Now();
    for (std::size_t o = 0; o < region.bytes(); o += region.piece) {
      if (out)
        TRY(cuMemcpyDtoHAsync_v2(at + o, region.base + o, region.piece, stream));
      else
        TRY(cuMemcpyHtoDAsync_v2(region.base + o, at + o, region.piece, stream));
    }
    TRY(cuStreamSynchronize(stream));
    return Now() - begin;
  }
};

double FreeGiB() {
  std::size_t free_bytes = 0, total = 0;
  cuMemGetInfo_v2(&free_bytes, &total);
  return static_cast<double>(free_bytes) / static_cast<double>(kGiB);
}

// Shows whether the device counts the memory once, and whether each process does.
void TellProcesses(const char* when) {
  std::printf("%s: free %.1f GiB; process and MiB: ", when, FreeGiB());
  std::fflush(stdout);
  const char* const ask =
      "nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits | tr '\\n' ';'; echo";
  if (std::system(ask) != 0) std::puts("nvidia-smi failed");
}

// A process that could not be restored is lost.
void DriverAlone(const char* name, const Target& child) {
  double out_s = 0, back_s = 0;
  const Result out = child.Out(out_s), back = out == 0 ? child.Back(back_s) : -1;
  std::printf("%s, the driver alone: %d in %.3f s, %d in %.3f s", name, out, out_s, back, back_s);
  if (out == 0 && back != 0)
    std::puts("");
  else
    std::printf(", wrong words %zu\n", child.Wrong());
}

std::vector<int> TakeAndExport(const Target& child, std::size_t count, std::size_t piece) {
  child.Ask({kTake, count, piece, 0, 0, 0, 0, 0});
  child.Tell({kExport, count, piece, 0, 0, 0, 0, 0});
  auto files = ReceiveFiles(child.socket(), count);
  child.Hear();
  return files;
}

// One way out and back. `keep_out`: the child's descriptors stay open during the checkpoint; `keep_back`: the
// child keeps the descriptors that it gets, for the next time.
void Cycle(const char* name, const Target& child, Region& own, const Arena& arena, std::size_t count,
           bool overlap, std::size_t keep_out, std::size_t keep_back) {
  const double begin = Now();
  child.Tell({kHandOut, count, own.piece, keep_out, 0, 0, 0, 0});
  auto files = ReceiveFiles(child.socket(), count);
  const Message handed = child.Hear();
  own.Import(files);
  CloseAll(files);
  double copy = 0, save = 0, restore = 0;
  Result out = 0, back = 0;
  if (overlap) {
    std::thread driver([&] { out = child.Out(save); });
    copy = arena.Copy(own, true);
    driver.join();
  } else {
    copy = arena.Copy(own, true);
    out = child.Out(save);
  }
  own.Drop();
  const double gone = Now(), size = static_cast<double>(own.piece * count) / 1e9;
  std::printf(
      "%s, out: %d in %.3f s: export %.4f, drop %.4f, copy %.3f (%.1f GB/s), checkpoint %.3f; free %.1f "
      "GiB\n",
      name, out, gone - begin, handed.export_s, handed.drop_s, copy, size / copy, save, FreeGiB());
  own.Create(count);
  if (overlap && out == 0) {
    std::thread driver([&] { back = child.Back(restore); });
    copy = arena.Copy(own, false);
    driver.join();
  } else {
    if (out == 0) back = child.Back(restore);
    copy = arena.Copy(own, false);
  }
  files = own.Export();
  child.Tell({kAdopt, count, own.piece, keep_back, 0, 0, 0, 0});
  SendFiles(child.socket(), files);
  CloseAll(files);
  const Message adopted = child.Hear();
  TellProcesses("both hold it");
  own.Drop();
  const double there = Now();
  std::printf(
      "%s, back: %d in %.3f s: copy %.3f (%.1f GB/s), restore %.3f, adopt %.4f; wrong words %zu; SUM %.3f\n",
      name, back, there - gone, copy, size / copy, restore, adopted.import_s, child.Wrong(), there - begin);
}

}  // namespace

int main(int count, char** words) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (count == 3 && std::strcmp(words[1], "child") == 0) RunProgram(std::atoi(words[2]));
  const std::size_t gib = count > 1 ? std::strtoul(words[1], nullptr, 10) : 10;
  const std::size_t piece = (count > 2 ? std::strtoul(words[2], nullptr, 10) : 1024) * kMiB;
  const std::size_t pieces = gib * kGiB / piece, small = 16 * kMiB,
                    few = std::min(pieces, std::max<std::size_t>(1, 2 * kGiB / piece));
  double out_s = 0, back_s = 0;
  Load();
  const Arena arena(gib * kGiB);
  Region own;
  own.Reserve();
  own.piece = piece;
  {
    const Target child;
    for (int i = 0; i < 2; ++i) {
      const Result out = child.Out(out_s), back = child.Back(back_s);
      std::printf("context alone: %d %d, checkpoint %.3f s, restore %.3f s\n", out, back, out_s, back_s);
    }
    child.Ask({kTake, pieces, piece, 0, 0, 0, 0, 0});
    Cycle("one after the other", child, own, arena, pieces, false, 0, 0);
    child.Ask({kDropAll, 0, 0, 0, 0, 0, 0, 0});
    child.Ask({kTake, pieces, piece, 0, 0, 0, 0, 0});
    Cycle("at the same time, kept", child, own, arena, pieces, true, 0, 1);
    Cycle("kept descriptors passed again", child, own, arena, pieces, true, 0, 1);
    child.Ask({kDropAll, 0, 0, 0, 0, 0, 0, 0});
    own.piece = small;
    const std::size_t many = gib * kGiB / small;
    child.Ask({kTake, many, small, 0, 0, 0, 0, 0});
    Cycle("handles of 16 MiB", child, own, arena, many, true, 0, 1);
    child.Ask({kDropAll, 0, 0, 0, 0, 0, 0, 0});
    own.piece = piece;
    child.Ask({kTake, few, piece, 0, 0, 0, 0, 0});
    Cycle("descriptors open in the child during the checkpoint", child, own, arena, few, true, 1, 0);
  }
  {
    const Target child;
    child.Ask({kTake, few, piece, 0, 0, 0, 0, 0});
    DriverAlone("exportable, never exported", child);
  }
  {
    const Target child;
    auto files = TakeAndExport(child, few, piece);
    CloseAll(files);
    DriverAlone("exported, nobody else has it", child);
  }
  {
    const Target child;
    auto files = TakeAndExport(child, few, piece);
    own.piece = piece;
    own.Import(files);
    CloseAll(files);
    TellProcesses("exported and imported by another");
    DriverAlone("exported and imported by another", child);
    own.Drop();
  }
  for (const bool keep : {true, false}) {
    const Target child;
    child.Ask({kTake, few, piece, 0, 0, 0, 0, 0});
    Cycle("before the next question", child, own, arena, few, true, 0, 1);
    if (!keep) child.Ask({kCloseKept, 0, 0, 0, 0, 0, 0, 0});
    DriverAlone(keep ? "imported, descriptors kept" : "imported, no descriptor", child);
  }
  return 0;
}
