# The libraries that Lockstep stands on, all from Debian 12; scripts/setup.sh installs them.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(OpenSSL REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(cpprestsdk REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS system)
find_package(Protobuf REQUIRED)

# Debian has fmt as a shared library, which the static agent cannot link. Header-only, each file that formats a text
# would compile the library once more, which takes seconds.
add_library(lockstep_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt_library.cpp)
get_target_property(fmt_folder fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(lockstep_fmt SYSTEM PUBLIC ${fmt_folder})

# find_package(dnnl) of Debian 12 asks for OpenCL, which the CPU library does not need.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(lockstep_dnnl INTERFACE)
target_include_directories(lockstep_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(lockstep_dnnl INTERFACE ${DNNL_LIBRARY})

# find_package(libjpeg-turbo) of Debian 12 asks for files of another package.
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
add_library(lockstep_turbojpeg INTERFACE)
target_include_directories(lockstep_turbojpeg SYSTEM INTERFACE ${TURBOJPEG_INCLUDE_DIR})
target_link_libraries(lockstep_turbojpeg INTERFACE ${TURBOJPEG_LIBRARY})

# libnghttp2 of Debian 12 has no CMake package.
find_path(NGHTTP2_INCLUDE_DIR nghttp2/nghttp2.h REQUIRED)
find_library(NGHTTP2_LIBRARY nghttp2 REQUIRED)
add_library(lockstep_nghttp2 INTERFACE)
target_include_directories(lockstep_nghttp2 SYSTEM INTERFACE ${NGHTTP2_INCLUDE_DIR})
target_link_libraries(lockstep_nghttp2 INTERFACE ${NGHTTP2_LIBRARY})

if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
