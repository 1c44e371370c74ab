# liblend.so, and the files that `cmake --install` adds: headers, lend.pc and a CMake package.
add_library(lend_shared SHARED)
list(REMOVE_ITEM layers lend_cli) # for programs
foreach(layer IN LISTS layers)
	target_sources(lend_shared PRIVATE $<TARGET_OBJECTS:${layer}>)
endforeach()
set_target_properties(lend_shared PROPERTIES
	OUTPUT_NAME lend EXPORT_NAME lend LINKER_LANGUAGE C
	VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
	LINK_DEPENDS ${CMAKE_SOURCE_DIR}/src/lend.map)
target_link_options(lend_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/src/lend.map -Wl,--no-undefined
	-Wl,-Bsymbolic-functions) # calls inside the library do not go through the PLT
target_link_libraries(lend_shared PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
target_include_directories(lend_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

add_dependencies(programs lend_shared)
install(TARGETS lend_shared EXPORT lend LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/lend DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.proto"
	PATTERN "grpc.h" EXCLUDE PATTERN "*.pb-c.h" EXCLUDE) # protobuf.cmake installs them

# Man 3 pages, from the comments of the headers and from programs that a test compiles.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
	set(man3_dir ${CMAKE_BINARY_DIR}/man/man3)
	file(GLOB man3_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/lend/*.h ${CMAKE_SOURCE_DIR}/test/e2e/install/*.c ${CMAKE_SOURCE_DIR}/apps/examples/hello.c
		${CMAKE_SOURCE_DIR}/apps/examples/greeter.c ${CMAKE_SOURCE_DIR}/apps/examples/named.c
		${CMAKE_SOURCE_DIR}/apps/examples/dictionary.cc)
	add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/man/made
		COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/man3.py ${man3_dir} ${man3_sources}
		COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/man/made
		DEPENDS ${CMAKE_SOURCE_DIR}/scripts/man3.py ${man3_sources} COMMENT "Writing the man 3 pages" VERBATIM)
	add_custom_target(man3 ALL DEPENDS ${CMAKE_BINARY_DIR}/man/made)
	file(MAKE_DIRECTORY ${man3_dir}) # for installations without this target
	install(DIRECTORY ${man3_dir} DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()

file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/lend.pc.in ${CMAKE_BINARY_DIR}/lend.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lend.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lend)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lend-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT lend NAMESPACE Lend:: FILE lend-config.cmake DESTINATION ${package_dir})
install(FILES ${CMAKE_BINARY_DIR}/lend-config-version.cmake DESTINATION ${package_dir})
