// Counts the threads that a test program starts, except those of OpenMP's pool: ThreadSanitizer cannot follow these.
#pragma once

namespace lockstep {

// Since the program's start; 0 in a sanitizer's build, which has a pthread_create() of its own. Thread-safe.
int threads_started();

}  // namespace lockstep
