# A room is a folder with one static library; DEPENDS is the list of rooms that it may include (a test compares it with
# the includes).
include_guard()

# What `ctest -L unit` runs; a sanitizer's build needs nothing else.
add_custom_target(unit_tests)

if(LOCKSTEP_TESTS)
  add_library(lockstep_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/main.cpp
                                        ${PROJECT_SOURCE_DIR}/tests/threads_started.cpp)
  target_include_directories(lockstep_test_main PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(lockstep_test_main PUBLIC GTest::gmock ${CMAKE_DL_LIBS} PRIVATE lockstep_warnings)
endif()

# lockstep_room(<room> SOURCES a.cpp ... [MUTATED b.cpp ...] [APART c.cpp ...] [DEPENDS room ...]
#               [LIBRARIES target ...])
# MUTATED: sources that tests compile again with bugs in them. A unity build makes one object of them, which the linker
# leaves out there.
# APART: sources that a unity build compiles by themselves, because their local names are others' too.
function(lockstep_room room)
  cmake_parse_arguments(ROOM "" "" "SOURCES;MUTATED;APART;DEPENDS;LIBRARIES" ${ARGN})
  add_library(lockstep_${room} STATIC ${ROOM_SOURCES} ${ROOM_MUTATED} ${ROOM_APART})
  if(ROOM_MUTATED)
    set_target_properties(lockstep_${room} PROPERTIES UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${ROOM_SOURCES} PROPERTIES UNITY_GROUP room)
    set_source_files_properties(${ROOM_MUTATED} PROPERTIES UNITY_GROUP mutated)
  endif()
  set_source_files_properties(${ROOM_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(lockstep_${room} PUBLIC ${PROJECT_SOURCE_DIR})
  list(TRANSFORM ROOM_DEPENDS PREPEND lockstep_)
  target_link_libraries(lockstep_${room} PUBLIC ${ROOM_DEPENDS} ${ROOM_LIBRARIES} PRIVATE lockstep_warnings)
endfunction()

# lockstep_test(<room> [SOURCES x_test.cpp ...] [ONE_THREAD y_test.cpp ...] [SEPARATE] [DEPENDS room ...]
#               [LIBRARIES target ...] [LABELS unit])
# ONE_THREAD: files whose tests start no thread but OpenMP's; a test of theirs that does fails (tests/main.cpp).
# ThreadSanitizer's build leaves them out. `make test` runs them under AddressSanitizer at idle priority.
# SEPARATE: never as a unity build, because the files use the same local names for different things. Better: a namespace
# for each file, `namespace lockstep::<room>::<file>`.
function(lockstep_test room)
  cmake_parse_arguments(T "SEPARATE" "" "SOURCES;ONE_THREAD;DEPENDS;LIBRARIES;LABELS" ${ARGN})
  if(LOCKSTEP_SANITIZE STREQUAL "thread")
    set(T_ONE_THREAD)
    if(NOT T_SOURCES)
      return()
    endif()
  endif()
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  set(one_thread_files ${CMAKE_CURRENT_BINARY_DIR}/${room}_one_thread_files.cpp)
  list(TRANSFORM T_ONE_THREAD REPLACE ".*/" "" OUTPUT_VARIABLE names)
  list(JOIN names "," names)
  file(CONFIGURE OUTPUT ${one_thread_files} CONTENT [[
extern const char* const lockstep_one_thread_files;
const char* const lockstep_one_thread_files = ",@names@,";
]] @ONLY)
  add_executable(${room}_test ${T_ONE_THREAD} ${T_SOURCES} ${one_thread_files})
  list(TRANSFORM T_DEPENDS PREPEND lockstep_)
  target_link_libraries(${room}_test PRIVATE ${T_DEPENDS} ${T_LIBRARIES} GTest::gmock lockstep_test_main lockstep_warnings)
  target_include_directories(${room}_test PRIVATE ${PROJECT_SOURCE_DIR})
  if(T_SEPARATE)
    set_target_properties(${room}_test PROPERTIES UNITY_BUILD OFF)
  endif()
  set_target_properties(${room}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  set(test_seconds 300)
  if(LOCKSTEP_SANITIZE)
    set(test_seconds 900)
  endif()
  add_test(NAME ${room} COMMAND ${room}_test)
  set_tests_properties(${room} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${test_seconds})
  if(T_ONE_THREAD AND LOCKSTEP_SANITIZE MATCHES "address")
    set(idle ${room})
    if(T_SOURCES)
      set(idle ${room}_one_thread)
      add_test(NAME ${idle} COMMAND ${room}_test)
      set_tests_properties(${room} PROPERTIES ENVIRONMENT LOCKSTEP_TEST_FILES=threads)
      set_tests_properties(${idle} PROPERTIES ENVIRONMENT LOCKSTEP_TEST_FILES=one_thread)
      lockstep_one_report(${room} ${idle})
    endif()
    set_tests_properties(${idle} PROPERTIES LABELS "${T_LABELS};one_thread" TIMEOUT 2700)
  endif()
  if("unit" IN_LIST T_LABELS)
    add_dependencies(unit_tests ${room}_test)
  endif()
endfunction()

# Side by side, two runs of one program would write one report, and the tests of one would not be counted.
function(lockstep_one_report first second)
  set_tests_properties(${first} ${second} PROPERTIES RESOURCE_LOCK ${first}_report)
endfunction()

# Runs tests of a room once more, on the backend of tests/trainer/backend/late_backend.h.
function(lockstep_test_on_late room filter)
  add_test(NAME ${room}_late COMMAND ${room}_test --gtest_filter=${filter})
  get_test_property(${room} LABELS labels)
  get_test_property(${room} TIMEOUT seconds)
  set_tests_properties(${room}_late PROPERTIES ENVIRONMENT LOCKSTEP_TEST_BACKEND=late LABELS "${labels}" TIMEOUT ${seconds})
  lockstep_one_report(${room} ${room}_late)
endfunction()

function(lockstep_add_if_there folder)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    return()
  endif()
  get_directory_property(options COMPILE_OPTIONS)
  # What waits for the network is compiled twice as fast with -O1, and no slower in use; what computes gets -O3.
  if(folder MATCHES "^(operator|tests|trainer/(agent|elastic|report)$|trainer$)")
    set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
    # Of the rooms that make requests and read answers, -Os makes a third less code: 0.7 MiB that are resident.
    if(folder MATCHES "^operator(/(api|job|kube|ops))?$")
      set(CMAKE_CXX_FLAGS_RELEASE "-Os -DNDEBUG")
    endif()
    # AddressSanitizer's -O1 takes three times as long to compile, which its tests never win back; ThreadSanitizer's
    # does not, and runs five times as fast. UndefinedBehaviorSanitizer's checks of null and of alignment would be a
    # third of the time to compile. AddressSanitizer finds null as well; alignment is checked in what computes.
    if(LOCKSTEP_SANITIZE MATCHES "address")
      set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
      set_property(DIRECTORY APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=null,alignment)
    endif()
  endif()
  add_subdirectory(${folder})
  set_property(DIRECTORY PROPERTY COMPILE_OPTIONS ${options})
endfunction()

function(lockstep_add_rooms side)
  foreach(room ${ARGN})
    lockstep_add_if_there(${side}/${room})
    if(LOCKSTEP_TESTS)
      lockstep_add_if_there(tests/${side}/${room})
    endif()
  endforeach()
endfunction()
