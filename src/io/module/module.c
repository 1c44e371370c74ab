/* module - finds and loads a carrier's module. See module.h. */
#include "io/module/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <module_interface.h> /* made by CMake */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/last_error.h"

#ifndef LEND_MODULE_LIBDIR
#define LEND_MODULE_LIBDIR "/usr/local/lib/lend"
#endif

static const char here[] = "an address in this library";

/* Finds the folder of the program. library_folder(): that of the library or program with this code.
 */
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

	if (dladdr(here, &info) == 0 || info.dli_fname == NULL || info.dli_fname[0] != '/')
		return false;
	n = snprintf(path, cap, "%s", info.dli_fname);
	if (n < 0 || (size_t)n >= cap)
		return false;
	*strrchr(path, '/') = '\0';
	return true;
}

/* Loads a module from a folder. NULL with found unset: it is not there. NULL with found set: it is
 * there, but does not load. */
static void *load_from(const char *folder, const char *sub, const char *file, bool *found)
{
	char path[PATH_MAX + 32];
	int n = snprintf(path, sizeof(path), "%s%s/%s", folder, sub, file);

	if (*found || n < 0 || (size_t)n >= sizeof(path) || access(path, F_OK) != 0)
		return NULL;
	*found = true;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Searches $LEND_MODULE_DIR, or the folders of the program, of the library, and of the installed
 * library. */
static void *load_module(const char *file, bool *found)
{
	const char *chosen = getenv("LEND_MODULE_DIR");
	char folder[PATH_MAX];
	void *module = NULL;

	if (chosen != NULL)
		return load_from(chosen, "", file, found);
	if (own_folder(folder, sizeof(folder))) {
		module = load_from(folder, "", file, found);
		if (!*found)
			module = load_from(folder, "/../lib/lend", file, found);
	}
	if (!*found && library_folder(folder, sizeof(folder))) {
		module = load_from(folder, "", file, found);
		if (!*found)
			module = load_from(folder, "/lend", file, found);
	}
	if (!*found)
		module = load_from(LEND_MODULE_LIBDIR, "", file, found);
	return module;
}

static int explain_release(const char *file)
{
	return lend_fail(ENODEV, "%s is of another release; rebuild it with this one", file);
}

/* Returns 0, or -ENODEV with lend_why_text(). */
static int load_or_explain(const char *file, const char *package, void **module)
{
	bool found = false;
	const char *interface;

	*module = load_module(file, &found);
	if (!found)
		return lend_fail(ENODEV,
				 "%s is not installed; build Lend where %s is, or name its folder "
				 "in LEND_MODULE_DIR",
				 file, package);
	if (!*module)
		return lend_fail(ENODEV, "%s does not load: %s", file, dlerror());
	interface = dlsym(*module, "lend_module_interface");
	return interface && strcmp(interface, LEND_MODULE_INTERFACE) == 0 ? 0
									  : explain_release(file);
}

int lend_module_find(const char *file, const char *package, const char *symbol, void **found)
{
	void *module;
	int rc = load_or_explain(file, package, &module);

	if (rc < 0)
		return rc;
	*found = dlsym(module, symbol);
	return *found ? 0 : explain_release(file);
}

int lend_io_module_open(const char *name, const char *package, const struct lend_io_config *config,
			struct lend_io **io)
{
	static const struct lend_io_host host = {.fail = lend_fail};
	char file[32], entry[32];
	lend_io_host_fn *introduce;
	lend_io_open_fn *open;
	void *module;
	int rc;

	(void)snprintf(file, sizeof(file), "lend_io_%s.so", name);
	(void)snprintf(entry, sizeof(entry), "lend_io_%s_open", name);
	rc = load_or_explain(file, package, &module);
	if (rc < 0)
		return rc;
	/* Never unloaded: its libraries leave threads and exit handlers behind. A second dlopen()
	 * is the same one. */
	*(void **)&introduce = dlsym(module, "lend_io_module_host");
	*(void **)&open = dlsym(module, entry);
	if (introduce == NULL || open == NULL)
		return explain_release(file);
	introduce(&host);
	return open(config, io);
}
