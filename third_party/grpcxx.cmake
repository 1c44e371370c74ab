# lend_grpcxx: gRPC's C++ library, for peers, tests and examples. lend_grpcxx_proto(): the C++ code of a .proto file.
find_program(GRPC_PLUGIN grpc_cpp_plugin)
# pkg_check_modules() would also ask for the flags of static libraries, which takes 15 s.
execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --cflags --libs grpc++ protobuf
	OUTPUT_VARIABLE flags RESULT_VARIABLE missing ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(missing OR NOT GRPC_PLUGIN OR NOT PROTOC)
	message(STATUS "grpc++, protobuf or their compilers not found: no programs in gRPC C++ (scripts/deps.sh peers)")
	return()
endif()
add_library(lend_grpcxx INTERFACE)
target_compile_features(lend_grpcxx INTERFACE cxx_std_17)
separate_arguments(flags UNIX_COMMAND "${flags}")
foreach(flag IN LISTS flags)
	if(flag MATCHES "^-I(.*)")
		target_include_directories(lend_grpcxx SYSTEM INTERFACE ${CMAKE_MATCH_1})
	elseif(flag MATCHES "^-[lL]")
		target_link_libraries(lend_grpcxx INTERFACE ${flag})
	else()
		target_compile_options(lend_grpcxx INTERFACE ${flag})
	endif()
endforeach()

# Adds the library TARGET with the messages and services of PROTO, made by gRPC's own compiler, as for any user of it.
function(lend_grpcxx_proto target proto)
	get_filename_component(noun ${proto} NAME_WE)
	get_filename_component(folder ${proto} DIRECTORY)
	set(made ${CMAKE_CURRENT_BINARY_DIR}/${target})
	file(MAKE_DIRECTORY ${made})
	add_custom_command(OUTPUT ${made}/${noun}.pb.cc ${made}/${noun}.pb.h ${made}/${noun}.grpc.pb.cc ${made}/${noun}.grpc.pb.h
		COMMAND ${PROTOC} -I${folder} --cpp_out=${made} --grpc_out=${made} --plugin=protoc-gen-grpc=${GRPC_PLUGIN} ${proto}
		DEPENDS ${proto})
	add_library(${target} STATIC EXCLUDE_FROM_ALL ${made}/${noun}.pb.cc ${made}/${noun}.grpc.pb.cc)
	target_include_directories(${target} SYSTEM PUBLIC ${made})
	target_link_libraries(${target} PUBLIC lend_grpcxx)
	target_compile_options(${target} PRIVATE ${foreign_cxx})
	set_target_properties(${target} PROPERTIES UNITY_BUILD ON) # the headers are read once
endfunction()
