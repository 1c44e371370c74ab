# lend_seal.so: libsodium, loaded when the first key is configured. Left out when libsodium is missing: then a configured key is an
# error.
pkg_check_modules(SODIUM IMPORTED_TARGET libsodium)
if(NOT SODIUM_FOUND)
	message(STATUS "libsodium not found: no keys (apt install libsodium-dev)")
	return()
endif()
add_library(lend_seal MODULE ${CMAKE_SOURCE_DIR}/src/seal/sodium.c)
set_target_properties(lend_seal PROPERTIES PREFIX "" INTERPROCEDURAL_OPTIMIZATION OFF)
target_link_libraries(lend_seal PRIVATE lend_flags PkgConfig::SODIUM)
add_dependencies(programs lend_seal)
install(TARGETS lend_seal LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lend)
