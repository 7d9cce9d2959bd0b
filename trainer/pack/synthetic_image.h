// Images that look like photographs to a JPEG decoder: smooth areas, edges and fine texture, at a similar size in
// bytes. A class has a colour of its own, so a network can learn to tell classes apart.
#pragma once

#include <cstdint>

#include "trainer/data/jpeg.h"

namespace lockstep::trainer::pack {

// The image number `number` of a class: `side` x `side` pixels. A pure function, in integers, with the same result on
// every machine. Any number of threads.
data::Image synthetic_image(std::uint64_t seed, std::uint64_t number, std::int64_t label, std::int64_t side);

}  // namespace lockstep::trainer::pack
