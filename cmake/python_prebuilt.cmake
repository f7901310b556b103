# A wheel of what another build folder holds: pip wheel . -C cmake.define.STICKYBIT_PREBUILT=<its absolute path>
# What pyproject.toml builds is there already.
# The extension must be of the Python that packs it; its file name says which that is.
file(GLOB extension ${STICKYBIT_PREBUILT}/python/stickybit/_core*.so)
if(NOT extension OR NOT EXISTS ${STICKYBIT_PREBUILT}/bin/stickybit)
  message(FATAL_ERROR "STICKYBIT_PREBUILT=${STICKYBIT_PREBUILT}: expected python/stickybit/_core*.so and bin/stickybit there")
endif()
add_custom_target(stickybit_python)
add_custom_target(stickybit_command)
install(FILES ${extension} DESTINATION stickybit COMPONENT python)
install(PROGRAMS ${STICKYBIT_PREBUILT}/bin/stickybit DESTINATION stickybit/bin COMPONENT python)
