// The contract tests of the CUDA backend run on the fakes of its libraries, with emulated kernels.
#include <array>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/cuda/emulator/emulator.h"
#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/backend/cuda/under_test.h"

namespace lockstep::trainer::testing {

backend::CudaOptions libraries(backend::Precision precision) {
  return on_fake(precision);
}

// Two orders show a sanitizer each access.
int runs() {
  return sanitizer::kOn ? 2 : cuda::emulator::kOrders;
}

void begin_run(int run) {
  using cuda::emulator::Order;
  constexpr std::array<Order, cuda::emulator::kOrders> kAll = {Order::kAscending, Order::kShuffled, Order::kDescending,
                                                               Order::kLanesFirst, Order::kWarpsFirst};
  cuda::emulator::set_order(kAll[static_cast<size_t>(run)]);
}

// The fakes sum in float64.
double sum_tolerance(std::int64_t) {
  return 1e-6;
}

}  // namespace lockstep::trainer::testing
