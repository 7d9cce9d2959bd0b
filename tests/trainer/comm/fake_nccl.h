// A fake of NCCL and of the CUDA runtime for machines without a GPU, as a shared library (libfakenccl.so) with the
// names of the real ones: trainer/comm/nccl_api.h loads it unchanged. It is not NVIDIA's and computes nothing on a GPU,
// but real bytes travel between threads and processes over the loopback interface. Where programs tend to fail it
// behaves like the real libraries:
//   * Streams are queues, each worked off by a thread. Whatever is in them runs, also after a communicator was aborted.
//   * Communicators do not block: linking them and launching on them goes through ncclInProgress, and a kernel is in
//     its stream only when ncclCommGetAsyncError says so.
//   * A rank that dies or aborts is a ncclRemoteError for the others; their kernels stay until they abort as well.
//     Kernels that are aborted end early and leave all-ones bytes: NaN.
//   * ncclInvalidArgument has no effect, every other error ends the communicator.
//   * An id is good for one communicator.
//   * cudaMalloc, cudaFree and copies with memory that is not pinned wait for the GPU, however long that takes.
// fake_nccl_misuses() counts calls that the real libraries leave undefined.
//
// Environment, read when the library is loaded: FAKE_NCCL_HANG_ABORTS=N and FAKE_NCCL_SEED as of fake_nccl_hang_aborts.
#pragma once

extern "C" {

// One in n of all later aborts hangs, drawn with this seed; 0: none does. Any thread, as all of these.
void fake_nccl_hang_aborts(int n, unsigned seed);
// Releases hanging calls, and all later ones until fake_nccl_hang_aborts is called again.
void fake_nccl_release();
// The next kernel of this rank (in this process) breaks with this ncclResult_t. `early`: it ends at once and leaves
// garbage, instead of staying until it is aborted.
void fake_nccl_break_next(int rank, int result, bool early);
// cudaMemcpyAsync does not return before fake_nccl_release().
void fake_nccl_hang_copies();
// Calls that hang at the moment.
int fake_nccl_hanging();
// Calls that the real libraries leave undefined: a broken communicator destroyed, work given to a communicator that was
// still busy, a device pointer that is none, bytes beyond the end of one.
int fake_nccl_misuses();
// Communicators of this process that were neither destroyed nor aborted.
int fake_nccl_communicators();
}
