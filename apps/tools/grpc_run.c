/* grpc_run - runs a program with liblend-grpc-preload.so, which carries its gRPC calls.
 * Layer: apps. Threads: one. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/spawn.h"
#include "apps/tools/doctor.h"

#define LIBRARY "liblend-grpc-preload.so"
enum { PATH_CAP = 4096 };

static const char doc[] =
    "Runs an unmodified, dynamically linked gRPC C++ program. Lend carries its plain calls to "
    "servers that are Lend endpoints, or run under this command, too.\v"
    "A call to HOST:P uses the address shm:grpc-P on this host, else udp:HOST:P. Without a native "
    "peer, with TLS, and for calls made with a parent call or a service configuration it uses "
    "HTTP/2, as without this command. A server keeps its port, and serves both addresses, too. "
    "LEND_GRPC=off switches the library off.\n\n"
    "lend doctor shows whether this machine's gRPC has a version that was tested; with another one "
    "the program runs unchanged.\n\n"
    "  lend grpc-run ./server 0.0.0.0:50051 &\n"
    "  lend grpc-run ./client localhost:50051";

/* Finds gRPC core's library by its major version; writes its own version. NULL: there is none. */
static void *find_grpc(char *version, size_t cap)
{
	const char *(*read_version)(void);
	char name[32];
	void *lib, *at;

	for (int major = 1; major < 100; major++) {
		(void)snprintf(name, sizeof(name), "libgrpc.so.%d", major);
		lib = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
		at = lib ? dlsym(lib, "grpc_version_string") : NULL;
		memcpy(&read_version, &at, sizeof(at));
		if (!at)
			continue;
		(void)snprintf(version, cap, "%s", read_version());
		return lib;
	}
	return NULL;
}

void doctor_grpc(struct visit *v)
{
	struct finding *f =
	    doctor_note(v, "grpc-run", false, "apt install libgrpc-dev, and build again");
	const char *(*find_lack)(void *, const char *), *lack;
	char path[PATH_CAP], version[64];
	void *lib, *at, *core;

	(void)snprintf(f->found, sizeof(f->found), "not in this build");
	if (!app_program_find(LIBRARY, LEND_PROGRAM_FOLDER, path, sizeof(path)))
		return;
	lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	at = lib ? dlsym(lib, "lend_grpc_lack") : NULL;
	memcpy(&find_lack, &at, sizeof(at));
	core = find_grpc(version, sizeof(version));
	f->ok = !core;
	(void)snprintf(f->found, sizeof(f->found), "no gRPC C++ on this machine");
	if (!core)
		return;
	lack = at ? find_lack(core, version) : "cannot be checked";
	f->ok = !lack;
	f->fix = "gRPC C++ 1.51 is carried; programs of other versions run unchanged";
	(void)snprintf(f->found, sizeof(f->found), "gRPC core %s %s", version,
		       lack ? lack : "was tested");
}

void app_grpc_preload(void)
{
	char path[PATH_CAP], list[2 * PATH_CAP];
	const char *loaded = getenv("LD_PRELOAD");

	if (!app_program_find(LIBRARY, LEND_PROGRAM_FOLDER, path, sizeof(path)))
		app_bad("not in this build: apt install libgrpc-dev and build again");
	(void)snprintf(list, sizeof(list), "%s%s%s", loaded ? loaded : "",
		       loaded && *loaded ? ":" : "", path);
	if (setenv("LD_PRELOAD", list, 1) < 0)
		app_die("no memory; end some processes");
}

int app_grpc_run(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.words = "PROGRAM [ARGUMENT...]", .doc = doc};
	bool unused = false;

	if (argc == 2 && !strcmp(argv[1], "--help"))
		lend_options_read(&syntax, NULL, argc, argv, &unused);
	if (argc < 2)
		app_bad("run what? lend grpc-run PROGRAM [ARGUMENT...]");
	app_grpc_preload();
	execvp(argv[1], argv + 1);
	app_bad("%s: %s; name a program that can be run", argv[1], strerror(errno));
}
