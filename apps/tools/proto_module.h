/* proto_module - loads lend_proto.so, and finds the .proto files of Lend.
 * Layer: apps. Threads: one. */
#ifndef APPS_TOOLS_PROTO_MODULE_H
#define APPS_TOOLS_PROTO_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/proto/proto.h"

/* Returns whether this build has the module. */
bool app_proto_is_built(void);
/* Loads the module for the life of the process; app_bad() when this build has none. */
const struct app_proto *app_proto_load(void);
/* Stores the folder of lend/lend.proto; app_bad() when it is not there. */
void app_proto_folder(char *folder, size_t cap);

#endif
