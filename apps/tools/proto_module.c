/* proto_module - see proto_module.h. */
#include "apps/tools/proto_module.h"

#include <dlfcn.h>
#include <string.h>

#include "apps/common/options.h"
#include "apps/common/spawn.h"

enum { PATH_CAP = 4096 };

bool app_proto_is_built(void)
{
	char path[PATH_CAP];

	return app_program_find("lend_proto.so", LEND_PROGRAM_FOLDER, path, sizeof(path));
}

const struct app_proto *app_proto_load(void)
{
	char path[PATH_CAP];
	void *module;

	if (!app_program_find("lend_proto.so", LEND_PROGRAM_FOLDER, path, sizeof(path)))
		app_bad("not in this build: install libprotobuf-dev and build again");
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		app_bad("%s; install libprotobuf-dev", dlerror());
	return dlsym(module, "lend_proto_module");
}

void app_proto_folder(char *folder, size_t cap)
{
	static const char name[] = "include/lend/lend.proto";

	if (!app_program_find(name, "../", folder, cap))
		app_bad("%s: no such file; install Lend again", folder);
	folder[strlen(folder) - strlen("/lend/lend.proto")] = 0;
}
