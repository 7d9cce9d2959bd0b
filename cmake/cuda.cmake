# The kernels of the CUDA backend for real GPUs. Everything else of the backend is built everywhere, and its tests run
# the same kernels on the host; only this needs a CUDA toolkit.
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/cuda-toolkit.sh --where OUTPUT_VARIABLE toolkit
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(LOCKSTEP_CUDA AUTO CACHE STRING "Compile CUDA kernels with nvcc: ON, OFF, or AUTO: where the toolkit is")
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LOCKSTEP_CUDA_TOOLKIT ${toolkit} CACHE PATH "The CUDA toolkit; scripts/cuda-toolkit.sh makes one there")

# In lib: the packages of cuda-toolkit.txt. In lib64: NVIDIA's installers.
set(cudart)
foreach(folder lib lib64)
  if(NOT cudart AND EXISTS ${LOCKSTEP_CUDA_TOOLKIT}/${folder}/libcudart_static.a)
    set(cudart ${LOCKSTEP_CUDA_TOOLKIT}/${folder}/libcudart_static.a)
  endif()
endforeach()

set(LOCKSTEP_HAS_CUDA ${LOCKSTEP_CUDA})
if(LOCKSTEP_CUDA STREQUAL "AUTO")
  set(LOCKSTEP_HAS_CUDA OFF)
  if(EXISTS ${LOCKSTEP_CUDA_TOOLKIT}/bin/nvcc AND cudart AND NOT LOCKSTEP_SANITIZE)
    set(LOCKSTEP_HAS_CUDA ON)
  endif()
elseif(LOCKSTEP_CUDA AND NOT EXISTS ${LOCKSTEP_CUDA_TOOLKIT}/bin/nvcc)
  message(FATAL_ERROR "LOCKSTEP_CUDA is ON, and ${LOCKSTEP_CUDA_TOOLKIT} has no bin/nvcc: run scripts/cuda-toolkit.sh")
elseif(LOCKSTEP_CUDA AND NOT cudart)
  message(FATAL_ERROR "LOCKSTEP_CUDA is ON, and ${LOCKSTEP_CUDA_TOOLKIT} has no lib/libcudart_static.a: "
                      "run scripts/cuda-toolkit.sh")
endif()

# The machines that the kernels are compiled for: A100, H100 and H200, B200. Later ones compile the PTX when they start.
set(LOCKSTEP_NVCC_FLAGS -std=c++17 -O3 -lineinfo --expt-relaxed-constexpr --Werror all-warnings
    -Xcompiler=-Wall,-Wno-unknown-pragmas,-fPIC
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
    -gencode arch=compute_100,code=sm_100 -gencode arch=compute_100,code=compute_100)

# lockstep_cuda_kernels: a static library of all kernels, which brings the runtime that launches them. The target
# cuda_kernels prints what each kernel takes of a GPU, and compares it with a table. Not by CMake's own language CUDA:
# its rules would pass options of the C++ compiler to nvcc.
if(LOCKSTEP_HAS_CUDA)
  set(objects)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} trainer/backend/cuda/kernels/*.cu)
  foreach(source ${sources})
    set(object ${PROJECT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${LOCKSTEP_CUDA_TOOLKIT}/bin/nvcc ${LOCKSTEP_NVCC_FLAGS}
              -ccbin ${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR} -MD -MF ${object}.d
              -c ${PROJECT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d COMMENT "nvcc ${source}" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_library(lockstep_cuda_kernels STATIC ${objects})
  set_target_properties(lockstep_cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(lockstep_cuda_kernels INTERFACE ${cudart} Threads::Threads rt ${CMAKE_DL_LIBS})
  add_custom_target(cuda_kernels DEPENDS ${objects} VERBATIM
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/cuda_kernels.py
            --table ${PROJECT_SOURCE_DIR}/tests/gpu/kernels.txt ${LOCKSTEP_CUDA_TOOLKIT}/bin/cuobjdump ${objects})
endif()
