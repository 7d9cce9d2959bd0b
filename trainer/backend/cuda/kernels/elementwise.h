// Kernels that compute each element from the elements at its place.
#pragma once

#include "trainer/backend/cuda/kernels/types.h"

namespace lockstep::trainer::cuda {

// y = a + b. `y` may be `a` or `b`.
template <typename Element>
CudaError add(CudaStream* stream, const Element* a, const Element* b, Element* y, std::int64_t count);

// to = from, or to += from with `accumulate`: what passes a gradient on, and converts.
template <typename From, typename To>
CudaError give(CudaStream* stream, const From* from, To* to, std::int64_t count, bool accumulate);

// y = max(x, 0). A NaN stays one.
template <typename Element>
CudaError relu_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t count);
// dx (+)= dy where y > 0, else 0.
template <typename Element>
CudaError relu_backward(CudaStream* stream, const Element* y, const Element* dy, Element* dx, std::int64_t count,
                        bool accumulate);

// y = min(max(x, 0), 6). A NaN stays one.
template <typename Element>
CudaError relu6_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t count);
// dx (+)= dy where 0 < y < 6 or y is a NaN, else 0.
template <typename Element>
CudaError relu6_backward(CudaStream* stream, const Element* y, const Element* dy, Element* dx, std::int64_t count,
                         bool accumulate);

// y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
template <typename Element>
CudaError gelu_forward(CudaStream* stream, const Element* x, Element* y, std::int64_t count);
// dx (+)= dy times the slope at x.
template <typename Element>
CudaError gelu_backward(CudaStream* stream, const Element* x, const Element* dy, Element* dx, std::int64_t count,
                        bool accumulate);

}  // namespace lockstep::trainer::cuda
