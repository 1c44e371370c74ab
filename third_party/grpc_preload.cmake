# liblend-grpc-preload.so: carries the calls of unmodified gRPC C++ programs, see `lend grpc-run`. Without gRPC's headers it is not
# built, and lend grpc-run says what to install. gRPC's functions are those of the program: nothing of it is linked.
find_path(GRPC_HEADERS grpc/grpc.h)
if(LEND_FUZZ OR LEND_COVERAGE)
	return() # programs of such builds do not load it
endif()
if(NOT GRPC_HEADERS)
	message(STATUS "gRPC not found: no lend grpc-run (apt install libgrpc-dev)")
	return()
endif()
lend_files(preload_files src/preload)
add_library(lend_grpc_preload MODULE ${preload_files})
set_target_properties(lend_grpc_preload PROPERTIES OUTPUT_NAME lend-grpc-preload INTERPROCEDURAL_OPTIMIZATION OFF
	BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN/..")
target_compile_definitions(lend_grpc_preload PRIVATE _GNU_SOURCE)
target_include_directories(lend_grpc_preload SYSTEM PRIVATE ${GRPC_HEADERS})
target_link_libraries(lend_grpc_preload PRIVATE lend_flags lend_shared Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(lend_grpc_preload PRIVATE -Wl,-z,lazy -Wl,-z,undefs)
add_dependencies(programs lend_grpc_preload)
install(TARGETS lend_grpc_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lend)
