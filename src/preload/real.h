/* real - gRPC core's own functions, behind those of the same name that this library replaces.
 * Layer: preload. Threads: any. */
#ifndef LEND_PRELOAD_REAL_H
#define LEND_PRELOAD_REAL_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <stdbool.h>

/* gRPC declares them without parameters. */
grpc_channel_credentials *grpc_insecure_credentials_create(void);
grpc_server_credentials *grpc_insecure_server_credentials_create(void);

#define REAL_FUNCTIONS(X)                                                                          \
	X(grpc_call_cancel)                                                                        \
	X(grpc_call_cancel_with_status)                                                            \
	X(grpc_call_failed_before_recv_message)                                                    \
	X(grpc_call_ref)                                                                           \
	X(grpc_call_set_credentials)                                                               \
	X(grpc_call_start_batch)                                                                   \
	X(grpc_call_unref)                                                                         \
	X(grpc_channel_create)                                                                     \
	X(grpc_channel_create_call)                                                                \
	X(grpc_channel_create_registered_call)                                                     \
	X(grpc_channel_credentials_release)                                                        \
	X(grpc_channel_destroy)                                                                    \
	X(grpc_channel_register_call)                                                              \
	X(grpc_completion_queue_create)                                                            \
	X(grpc_completion_queue_create_for_callback)                                               \
	X(grpc_completion_queue_create_for_next)                                                   \
	X(grpc_completion_queue_create_for_pluck)                                                  \
	X(grpc_completion_queue_destroy)                                                           \
	X(grpc_completion_queue_next)                                                              \
	X(grpc_completion_queue_pluck)                                                             \
	X(grpc_completion_queue_shutdown)                                                          \
	X(grpc_insecure_credentials_create)                                                        \
	X(grpc_insecure_server_credentials_create)                                                 \
	X(grpc_server_add_http2_port)                                                              \
	X(grpc_server_credentials_release)                                                         \
	X(grpc_server_destroy)                                                                     \
	X(grpc_server_register_completion_queue)                                                   \
	X(grpc_server_shutdown_and_notify)                                                         \
	X(grpc_server_start)

#define DECLARE_REAL(name) __typeof__(&(name)) name;
struct real {
	REAL_FUNCTIONS(DECLARE_REAL)
	bool active; /* gRPC has a version that was tested */
};
extern struct real real_functions;

/* Marks the functions that replace gRPC's. */
#define REPLACES __attribute__((visibility("default")))

/* gRPC's function for a channel to a server in its process, in C++ of core. */
#define REAL_INPROC_CREATE "_Z26grpc_inproc_channel_createP11grpc_serverPK17grpc_channel_argsPv"

/* For lend doctor: returns what keeps Lend from carrying calls; NULL: nothing. core: a handle of
 * dlopen(). */
REPLACES const char *lend_grpc_lack(void *core, const char *version);
/* Finds gRPC's functions at the first use; in a program without gRPC there are none. */
void real_find(void);
static inline const struct real *real_grpc(void)
{
	if (__builtin_expect(!__atomic_load_n(&real_functions.grpc_call_unref, __ATOMIC_ACQUIRE),
			     0))
		real_find();
	return &real_functions;
}

#endif
