/* proto - the functions of lend_proto.so, which has protobuf C++ inside, so that no other command
 * loads it.
 *
 * Functions that can fail return NULL, or one line that names the fix. Texts are the module's,
 * until its next call. Layer: apps. Threads: one. */
#ifndef APPS_PROTO_PROTO_H
#define APPS_PROTO_PROTO_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct app_proto {
	/* Generates C as a plugin of protoc: a request on standard input, the response on standard
	 * output. Returns the exit status. */
	int (*generate)(void);
	/* Reads a .proto file with protoc. folders: where it and its imports are, separated by
	 * colons. Called once. */
	const char *(*load)(const char *file, const char *folders);
	/* Learns files from a server's reflection service instead of load(): those of a service,
	 * such as "shop.Cart"; "": of all. The first time response is NULL, then service is. Stores
	 * the next request for the server; NULL: all is known. */
	const char *(*reflect)(const char *service, const void *response, size_t len,
			       const char **request, size_t *request_len);
	/* Returns the methods of the file and its imports, one on each line. */
	const char *(*list)(void);
	/* Chooses the method of the messages to come, by "/package.Service/Method". */
	const char *(*choose)(const char *path);
	/* Make a request of JSON, and JSON of a reply. *out is the module's until its next call. */
	const char *(*encode)(const char *json, size_t len, const char **out, size_t *out_len);
	const char *(*decode)(const void *reply, size_t len, const char **out);
};

/* The module's one symbol. */
extern const struct app_proto lend_proto_module;

#ifdef __cplusplus
}
#endif

#endif
