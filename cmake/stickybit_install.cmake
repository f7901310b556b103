# Installs headers, static libraries, the command and the CMake package `stickybit`:
#   find_package(stickybit REQUIRED)
#   target_link_libraries(... stickybit::stickybit)        or one stage, e.g. stickybit::block_fma
option(STICKYBIT_INSTALL "Add stickybit's files to `cmake --install`" ${PROJECT_IS_TOP_LEVEL})
if(NOT STICKYBIT_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/stickybit)
get_property(stage_targets GLOBAL PROPERTY STICKYBIT_STAGE_TARGETS)
install(TARGETS ${stage_targets} EXPORT stickybit_targets FILE_SET HEADERS)
install(TARGETS stickybit_all EXPORT stickybit_targets)
install(EXPORT stickybit_targets NAMESPACE stickybit:: FILE stickybitTargets.cmake DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/stickybitConfig.cmake.in
  ${PROJECT_BINARY_DIR}/stickybitConfig.cmake INSTALL_DESTINATION ${package_dir})
# Any change of a computed bit is a major version, so a consumer that asks for 1.2 gets the same bits from 1.3.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stickybitConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stickybitConfig.cmake ${PROJECT_BINARY_DIR}/stickybitConfigVersion.cmake
  DESTINATION ${package_dir})

if(TARGET stickybit_command)
  install(TARGETS stickybit_command)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
