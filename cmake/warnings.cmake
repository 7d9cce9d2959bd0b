# Warnings of every target of ours, and the sanitizers of the preset.
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Woverloaded-virtual
  # g++ 12 reports null dereferences and overlapping copies in its own headers that are not there.
  -Wno-null-dereference -Wno-restrict
  -Wno-missing-field-initializers  # designated initializers leave the rest at their defaults on purpose
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
if(LOCKSTEP_SANITIZE)
  # The same of uninitialised values, when sanitizers change its inlining.
  target_compile_options(lockstep_warnings INTERFACE -Wno-maybe-uninitialized)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
else()
  add_compile_options(-fstack-protector-strong $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
