# cmake -D PROGRAM=... -D READELF=... -P only_glibc.cmake: stops if the program needs a shared library that is not glibc's.
execute_process(COMMAND ${READELF} -d ${PROGRAM} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*" needed "${dynamic}")
list(FILTER needed EXCLUDE REGEX "\\[(libc|libm|libdl|librt|libpthread|ld-linux[-a-z0-9_]*)\\.so\\.[0-9]+\\]")
if(needed)
  file(REMOVE ${PROGRAM})
  message(FATAL_ERROR "${PROGRAM} would need more than glibc on the GPU machine: ${needed}")
endif()
