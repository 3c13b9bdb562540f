// Unusual programs: `odd_program NAME` allocates through CUDA in its own way and prints JSON.
//
// It finds the driver by dlsym, and has a dlsym and a getenv of its own in front of all others.
// early_program.cc (before main) and deep_library.cc (RTLD_DEEPBIND) have other ways.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/abi/cuda.h"

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr int kFirst = 3, kLast = 1023;
int asked = 0, read_elsewhere = 0;

struct Driver {
  explicit Driver(const char* name) : handle(::dlopen(name, RTLD_NOW)) {}
  template <typename Function>
  Function* Find(const char* symbol) const {
    return reinterpret_cast<Function*>(::dlsym(handle, symbol));
  }
  bool Start() const {
    CUcontext context = nullptr;
    return handle != nullptr && Find<fn::cuInit>("cuInit")(0) == CUDA_SUCCESS &&
           Find<fn::cuCtxCreate_v2>("cuCtxCreate_v2")(&context, 0, 0) == CUDA_SUCCESS;
  }
  int Allocate(std::size_t bytes) const {
    CUdeviceptr pointer = 0;
    return static_cast<int>(Find<fn::cuMemAlloc_v2>("cuMemAlloc_v2")(&pointer, bytes));
  }
  void* handle;
};

int Report(const Driver& driver, bool good) {
  const int status = driver.Allocate(64 * kMiB), beyond = driver.Allocate(std::size_t{1} << 35);
  std::printf("{\"status\": %d, \"beyond\": %d, \"good\": %s}\n", status, beyond, good ? "true" : "false");
  return 0;
}

// The lookup uses its own dlsym.
int OwnDlsym() {
  const Driver driver("libcuda.so.1");
  return driver.Start() ? Report(driver, asked > 0) : 1;
}

struct stat StatOf(int descriptor) {
  struct stat status {};
  ::fstat(descriptor, &status);
  return status;
}

// Makes every free descriptor number a duplicate of this file.
void Occupy(int file) {
  for (int number = kFirst; number <= kLast; ++number)
    if (number != file && ::fcntl(number, F_GETFD) < 0) ::dup2(file, number);
}

bool AreStill(int file) {
  const struct stat wanted = StatOf(file);
  for (int number = kFirst; number <= kLast; ++number) {
    const struct stat status = StatOf(number);
    if (status.st_ino != wanted.st_ino || status.st_dev != wanted.st_dev) return false;
  }
  return true;
}

// Closes all descriptors that it did not open, before and after it uses CUDA; then all numbers refer to its
// own file.
int CloseFrom() {
  ::closefrom(kFirst);
  const Driver driver("libcuda.so.1");
  if (!driver.Start() || driver.Allocate(kMiB) != CUDA_SUCCESS) return 1;
  ::closefrom(kFirst);
  char name[] = "/tmp/gpuman-odd-XXXXXX";
  const int file = ::mkstemp(name);
  ::unlink(name);
  Occupy(file);
  // A request that does not fit makes the shim look, by its descriptor, for processes of the job that have
  // ended.
  driver.Allocate(std::size_t{1} << 35);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  const bool unlocked = ::fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
  const bool alone = AreStill(file);
  // A child connects again, and closes what its parent left it, if that still exists.
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    driver.Allocate(kMiB);
    ::_exit(AreStill(file) ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return Report(driver, unlocked && alone && status == 0);
}

// Loads, uses and closes the driver again and again.
int Reload() {
  bool good = true;
  for (int round = 0; round < 3; ++round) {
    const Driver driver("libcuda.so.1");
    good = good && (round > 0 || driver.Start()) && driver.Allocate(kMiB) == CUDA_SUCCESS;
    ::dlclose(driver.handle);
  }
  return Report(Driver("libcuda.so.1"), good);
}

// A thread other than main's never reads the environment.
int Environment() {
  const Driver driver("libcuda.so.1");
  if (!driver.Start() || driver.Allocate(4 * kMiB) != CUDA_SUCCESS) return 1;
  std::puts("ready");
  std::fflush(stdout);
  if (std::getchar() == EOF) return 1;
  return Report(driver, __atomic_load_n(&read_elsewhere, __ATOMIC_SEQ_CST) == 0);
}

// Allocates through a library that prefers its own definitions.
int Deep(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
  if (library == nullptr) return 1;
  auto* const take = reinterpret_cast<int (*)(std::size_t)>(::dlsym(library, "DeepTake"));
  std::printf("{\"beyond\": %d}\n", take(std::size_t{1} << 30));
  std::fflush(stdout);
  return std::getchar() == EOF ? 0 : 1;  // until the process is no longer held
}

}  // namespace

// Defined as in hooking libraries and debuggers.
extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* symbol) noexcept {
  using Dlsym = void*(void*, const char*);
  static Dlsym* const next = [] {
    for (const char* const version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
      if (void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Dlsym*>(found);
    std::abort();
  }();
  ++asked;
  return next(handle, symbol);
}

// All code in this process calls it, too.
extern "C" __attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  if (::gettid() != ::getpid()) __atomic_fetch_add(&read_elsewhere, 1, __ATOMIC_SEQ_CST);
  const std::size_t length = std::strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return nullptr;
}

int main(int count, char** words) {
  const char* const name = count > 1 ? words[1] : "";
  if (std::strcmp(name, "own_dlsym") == 0) return OwnDlsym();
  if (std::strcmp(name, "closefrom") == 0) return CloseFrom();
  if (std::strcmp(name, "reload") == 0) return Reload();
  if (std::strcmp(name, "environment") == 0) return Environment();
  if (std::strcmp(name, "deep") == 0 && count > 2) return Deep(words[2]);
  return 2;
}
