#include "io/io.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/addr.h"
#include "io/carriers.h"
#include "io/module.h"
#include "sys/why.h"

#ifndef LEND_MODULE_LIBDIR
#define LEND_MODULE_LIBDIR "/usr/local/lib/lend"
#endif

static const char module_name[] = "lend_io_dpdk.so";

/* The folder of the file that holds this code: the program's, or that of liblend.so. */
static bool own_folder(char *path, size_t cap)
{
	ssize_t n = readlink("/proc/self/exe", path, cap - 1);
	char *slash;

	if (n <= 0)
		return false;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL)
		return false;
	*slash = '\0';
	return true;
}

static bool library_folder(char *path, size_t cap)
{
	Dl_info info;
	int n;

	if (dladdr(module_name, &info) == 0 || info.dli_fname == NULL || info.dli_fname[0] != '/')
		return false;
	n = snprintf(path, cap, "%s", info.dli_fname);
	if (n < 0 || (size_t)n >= cap)
		return false;
	*strrchr(path, '/') = '\0';
	return true;
}

/* NULL with found unset: not in this folder. NULL with found set: there, but it does not load. */
static void *load_from(const char *folder, const char *sub, bool *found)
{
	char path[PATH_MAX + 32];
	int n = snprintf(path, sizeof(path), "%s%s/%s", folder, sub, module_name);

	if (*found || n < 0 || (size_t)n >= sizeof(path) || access(path, F_OK) != 0)
		return NULL;
	*found = true;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Looks in $LEND_MODULE_DIR, beside the program, beside the library and where the library is
 * installed. */
static void *load(bool *found)
{
	const char *chosen = getenv("LEND_MODULE_DIR");
	char folder[PATH_MAX];
	void *module = NULL;

	if (chosen != NULL)
		return load_from(chosen, "", found);
	if (own_folder(folder, sizeof(folder))) {
		module = load_from(folder, "", found);
		if (!*found)
			module = load_from(folder, "/../lib/lend", found);
	}
	if (!*found && library_folder(folder, sizeof(folder))) {
		module = load_from(folder, "", found);
		if (!*found)
			module = load_from(folder, "/lend", found);
	}
	if (!*found)
		module = load_from(LEND_MODULE_LIBDIR, "", found);
	return module;
}

int lend_io_dpdk_load(const struct lend_io_config *config, struct lend_io **io)
{
	static const struct lend_io_host host = {.fail = lend_fail};
	bool found = false;
	void *module = load(&found);
	lend_io_host_fn *introduce;
	lend_io_open_fn *open;

	if (!found)
		return lend_fail(
		    ENODEV,
		    "dpdk: %s is not installed; build Lend where libdpdk-dev is, or name its "
		    "folder in LEND_MODULE_DIR",
		    module_name);
	if (module == NULL)
		return lend_fail(ENODEV, "dpdk: the module does not load: %s", dlerror());
	/* Never unloaded: DPDK leaves threads and exit handlers behind. A second dlopen() is the
	 * same one. */
	*(void **)&introduce = dlsym(module, "lend_io_dpdk_host");
	*(void **)&open = dlsym(module, "lend_io_dpdk_open");
	if (introduce == NULL || open == NULL)
		return lend_fail(ENODEV, "dpdk: %s is of another release; rebuild it with this one",
				 module_name);
	introduce(&host);
	return open(config, io);
}

int lend_io_open(const struct lend_io_config *config, struct lend_io **io)
{
	const char *address = config->listen != NULL ? config->listen : config->peer;

	switch (lend_addr_scheme(address)) {
	case LEND_SCHEME_SHM:
		return lend_io_shm_open(config, io);
	case LEND_SCHEME_UDP:
		return lend_io_udp_open(config, io);
	case LEND_SCHEME_DPDK:
		return lend_io_dpdk_load(config, io);
	case LEND_SCHEME_NONE:
		break;
	}
	struct lend_addr unused;

	return lend_addr_parse(address, &unused);
}

bool lend_io_same_scheme(const char *a, const char *b)
{
	return lend_addr_scheme(a) != LEND_SCHEME_NONE &&
	       lend_addr_scheme(a) == lend_addr_scheme(b);
}
