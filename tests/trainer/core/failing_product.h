// Matrix products that fail when a test says so: this program's dnnl_sgemm stands in front of the library's.
#pragma once

#include <atomic>

namespace lockstep::trainer::testing {

// Products that succeed before one fails, without writing anything. Each product takes one off, also below zero.
inline std::atomic<int> products_until_failure{-1};

}  // namespace lockstep::trainer::testing
