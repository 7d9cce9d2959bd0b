// A fake of NCCL for machines without a GPU, as a shared library (libfakenccl.so) with the names of the real one.
// trainer/comm/nccl_api.h loads it unchanged, and finds the fake of the CUDA runtime (tests/trainer/cuda/fake_cuda.h)
// in it. It is not NVIDIA's and computes nothing on a GPU, but real bytes travel between threads and processes over the
// loopback interface. Where programs tend to fail it behaves like the real library:
//   * Whatever is in a stream runs, also after a communicator was aborted.
//   * Communicators do not block: linking them and launching on them goes through ncclInProgress, and a kernel is in
//     its stream only when ncclCommGetAsyncError says so.
//   * A rank that dies or aborts is a ncclRemoteError for the others; their kernels stay until they abort as well.
//     Kernels that are aborted end early and leave all-ones bytes: NaN.
//   * ncclInvalidArgument has no effect, every other error ends the communicator.
//   * An id is good for one communicator.
// fake_nccl_misuses() counts calls that the real libraries leave undefined.
//
// Environment, read when the library is loaded: FAKE_NCCL_HANG_ABORTS=N and FAKE_NCCL_SEED as of fake_nccl_hang_aborts.
// FAKE_NCCL_VERSION=N is the version that ncclGetVersion tells (23003). FAKE_NCCL_KILL=ELEMENTS:N ends the process by
// SIGKILL in its Nth all-reduce (from 1) of at least so many elements, before it has sent its part.
#pragma once

extern "C" {

// One in n of all later aborts hangs, drawn with this seed; 0: none does. Any thread, as all of these.
void fake_nccl_hang_aborts(int n, unsigned seed);
// Releases hanging calls, those of the fake of the CUDA runtime as well; none hangs until it is told to again.
void fake_nccl_release();
// The next kernel of this rank (in this process) breaks with this ncclResult_t. `early`: it ends at once and leaves
// garbage, instead of staying until it is aborted.
void fake_nccl_break_next(int rank, int result, bool early);
// Calls that the real libraries leave undefined. They are a broken communicator destroyed, work given to a communicator
// that was still busy, memory that is not the device's.
int fake_nccl_misuses();
// Communicators of this process that were neither destroyed nor aborted.
int fake_nccl_communicators();
}
