#if defined(__x86_64__)
#include "vectors_x86.h"
#elif defined(__aarch64__)
#include "vectors_arm64.h" /* PLANTED missing-header */
#endif
