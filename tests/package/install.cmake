# Installs BUILD_DIR to an empty PREFIX and checks what is there.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${PREFIX} --config ${CONFIG}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE public RELATIVE ${SOURCE_DIR}/include ${SOURCE_DIR}/include/*.hpp ${SOURCE_DIR}/include/*.h)
file(GLOB_RECURSE installed RELATIVE ${PREFIX}/${INCLUDE_DIR} ${PREFIX}/${INCLUDE_DIR}/*)
list(SORT public)
list(SORT installed)
if(NOT public STREQUAL installed)
  message(FATAL_ERROR "Installed headers differ from include/:\n  installed: ${installed}\n  include/:  ${public}")
endif()

execute_process(COMMAND ${PREFIX}/${BIN_DIR}/stickybit models OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
