// A library to preload: each new thread of the program begins a while after it was made, as on a machine with
// much to do.
#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <new>
#include <thread>

namespace {

constexpr std::chrono::milliseconds kLate{300};

struct Beginning {
  void* (*run)(void*);
  void* argument;
};

void* Begin(void* word) {
  const Beginning beginning = *static_cast<Beginning*>(word);
  delete static_cast<Beginning*>(word);
  std::this_thread::sleep_for(kLate);
  return beginning.run(beginning.argument);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*run)(void*), void* argument) {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* const create = reinterpret_cast<Create*>(::dlsym(RTLD_NEXT, "pthread_create"));
  auto* const beginning = new (std::nothrow) Beginning{run, argument};
  if (beginning == nullptr) return EAGAIN;
  const int result = create(thread, attributes, Begin, beginning);
  if (result != 0) delete beginning;
  return result;
}
