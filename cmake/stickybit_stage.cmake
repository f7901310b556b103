# One target a stage. A stage uses earlier stages only: the list below is the order, and configure stops otherwise.
include_guard()

set(STICKYBIT_STAGES
  trace format rounding tensor_file exact figure
  machine schedule sfu block_fma gemm softmax attention fix predict bias study identify explain reports property cli)
# `predict` must be able to disagree with the emulator: it never sees what the emulator computes with.
set(STICKYBIT_FORBIDDEN_predict block_fma gemm softmax attention)

# stickybit_add_stage(<stage> [FILES_APART] SOURCES a.cpp ... HEADERS a.hpp ... USES <earlier stage> ... LINKS <library> ... PUBLIC_LINKS <library> ...)
# makes stickybit::<stage>. Sources are relative to the calling folder, headers to include/stickybit/<stage>/.
# FILES_APART: never several files in one compilation (CMAKE_UNITY_BUILD, as in the preset `release`): their local names are the same.
function(stickybit_add_stage stage)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FILES_APART" "" "SOURCES;HEADERS;USES;LINKS;PUBLIC_LINKS")
  list(FIND STICKYBIT_STAGES ${stage} position)
  if(position LESS 0)
    message(FATAL_ERROR "'${stage}' is not a stage; the stages are: ${STICKYBIT_STAGES}")
  endif()
  foreach(used IN LISTS arg_USES)
    list(FIND STICKYBIT_STAGES ${used} used_position)
    if(used_position LESS 0 OR NOT used_position LESS position)
      message(FATAL_ERROR "Stage '${stage}' uses '${used}', which is not an earlier stage of: ${STICKYBIT_STAGES}")
    endif()
    if(used IN_LIST STICKYBIT_FORBIDDEN_${stage})
      message(FATAL_ERROR "Stage '${stage}' must not use '${used}'")
    endif()
  endforeach()

  set(target stickybit_${stage})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE ${arg_LINKS} $<BUILD_INTERFACE:stickybit_options>)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})  # Highway includes a source file once a target
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
    if(arg_FILES_APART)
      set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(stickybit::${stage} ALIAS ${target})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/stickybit/${stage}/ OUTPUT_VARIABLE headers)
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
  target_compile_features(${target} ${scope} cxx_std_20)
  list(TRANSFORM arg_USES PREPEND stickybit:: OUTPUT_VARIABLE used_targets)
  target_link_libraries(${target} ${scope} ${used_targets} ${arg_PUBLIC_LINKS})
  # Every header compiles alone: the target all_verify_interface_header_sets, part of `all` in the tests' builds.
  set_target_properties(${target} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL}
    EXPORT_NAME ${stage})

  file(GLOB found RELATIVE ${PROJECT_SOURCE_DIR}/include/stickybit/${stage} CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/include/stickybit/${stage}/*.hpp)
  foreach(header IN LISTS found)
    if(NOT header IN_LIST arg_HEADERS)
      message(FATAL_ERROR "include/stickybit/${stage}/${header} is not listed in stickybit_add_stage(${stage})")
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY STICKYBIT_STAGE_TARGETS ${target})
endfunction()

# How our own code is compiled. Host floating point is used only in tested twins of integer definitions, and there
# contraction and fast-math would change bits.
add_library(stickybit_options INTERFACE)
target_compile_options(stickybit_options INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-ffp-contract=off;-fno-fast-math>
  $<$<AND:$<BOOL:${PROJECT_IS_TOP_LEVEL}>,$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion>)
if(CMAKE_UNITY_BUILD)  # a name may be hidden that another file made; the preset `dev` compiles each alone
  target_compile_options(stickybit_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Wno-shadow>)
endif()
# What Highway compiles its loops for, besides a machine without vectors: SSE4, AVX2, AVX-512; NEON. Chosen when the program runs.
target_compile_definitions(stickybit_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_AVX3_DL|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)>")

# stickybit::stickybit is every stage of the library.
function(stickybit_finish_stages)
  get_property(targets GLOBAL PROPERTY STICKYBIT_STAGE_TARGETS)
  add_library(stickybit_all INTERFACE)
  add_library(stickybit::stickybit ALIAS stickybit_all)
  target_link_libraries(stickybit_all INTERFACE ${targets})
  set_target_properties(stickybit_all PROPERTIES EXPORT_NAME stickybit)
endfunction()
