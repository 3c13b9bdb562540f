// The build includes this file before every source of the shim. glibc 2.34 gave some functions a new version
// without any other change; this file binds them to the version that they always had. So the library also
// loads where the program's glibc is older than the glibc that the library was built with, as in the image of
// a container.
#pragma once

#include <features.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define GPUMAN_FIRST_VERSION "GLIBC_2.2.5"
#define GPUMAN_VERSION_OF_SETNAME "GLIBC_2.12"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define GPUMAN_FIRST_VERSION "GLIBC_2.17"
#define GPUMAN_VERSION_OF_SETNAME "GLIBC_2.17"
#endif

#ifdef GPUMAN_FIRST_VERSION
#define GPUMAN_BIND(function, version) __asm__(".symver " #function "," #function "@" version)
GPUMAN_BIND(dladdr, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(dlopen, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(dlvsym, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(pthread_attr_setstacksize, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(pthread_create, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(pthread_key_create, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(pthread_mutex_trylock, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(pthread_setname_np, GPUMAN_VERSION_OF_SETNAME);
GPUMAN_BIND(pthread_setspecific, GPUMAN_FIRST_VERSION);
GPUMAN_BIND(pthread_sigmask, GPUMAN_FIRST_VERSION);
#undef GPUMAN_BIND
#endif
