#include "sys/memlimit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_CAP = 4096, LINE_CAP = 8192 };

struct hierarchy {
	bool v2;
	char mount[PATH_CAP]; /* where it is mounted */
	char top[PATH_CAP];   /* the cgroup that is mounted there */
};

static FILE *open_below(const char *root, const char *path)
{
	char full[2 * PATH_CAP];

	if ((size_t)snprintf(full, sizeof(full), "%s%s", root, path) >= sizeof(full))
		return NULL;
	return fopen(full, "re");
}

static void lower_limit(struct lend_memlimit *limit, uint64_t bytes, const char *name)
{
	if (bytes >= limit->bytes)
		return;
	*limit = (struct lend_memlimit){
	    .bytes = bytes, .cgroup = strncmp(name, "memory.", 7) == 0, .name = name};
}

static void read_limit(const char *root, const char *folder, bool v2, struct lend_memlimit *limit)
{
	const char *name = v2 ? "memory.max" : "memory.limit_in_bytes";
	char path[PATH_CAP + 32];
	uint64_t bytes;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = open_below(root, path);
	if (!file)
		return;
	if (fscanf(file, "%" SCNu64, &bytes) == 1) /* fails for "max" */
		lower_limit(limit, bytes, name);
	(void)fclose(file);
}

/* Reads from the process's own cgroup up to the topmost one that is visible here. */
static void read_ancestors(const char *root, const struct hierarchy *h, const char *cgroup,
			   struct lend_memlimit *limit)
{
	size_t top = strcmp(h->top, "/") == 0 ? 0 : strlen(h->top), mount = strlen(h->mount);
	char folder[PATH_CAP];
	char *slash;

	if (strncmp(cgroup, h->top, top) != 0 || (cgroup[top] != '/' && cgroup[top] != '\0'))
		cgroup = ""; /* the process's cgroup is not below the mount: the limit of the
				mounted one applies */
	else
		cgroup += top;
	if ((size_t)snprintf(folder, sizeof(folder), "%s%s", h->mount, cgroup) >= sizeof(folder))
		return;
	do {
		read_limit(root, folder, h->v2, limit);
		slash = strrchr(folder, '/');
		if (slash)
			*slash = '\0';
	} while (slash && strlen(folder) >= mount);
}

/* Parses a line of mountinfo: id parent dev TOP MOUNT options ... - TYPE source SUPER_OPTIONS. */
static bool parse_mount(const char *line, struct hierarchy *h)
{
	const char *dash = strstr(line, " - ");
	char type[32], options[256] = "";

	if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", h->top, h->mount) != 2 ||
	    sscanf(dash, " - %31s %*s %255s", type, options) < 1)
		return false;
	h->v2 = strcmp(type, "cgroup2") == 0;
	return h->v2 || (strcmp(type, "cgroup") == 0 && strstr(options, "memory"));
}

/* Finds the process's path in that hierarchy of cgroups, in lines like "4:memory:/a" and "0::/a".
 */
static bool find_cgroup(const char *root, bool v2, char *cgroup)
{
	FILE *file = open_below(root, "/proc/self/cgroup");
	char line[LINE_CAP];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':'), *path;

		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		found = v2 ? controllers[1] == '\0' : strstr(controllers, "memory") != NULL;
		if (found)
			(void)snprintf(cgroup, PATH_CAP, "%s", strcmp(path, "/") ? path : "");
	}
	if (file)
		(void)fclose(file);
	return found;
}

static void read_cgroups(const char *root, struct lend_memlimit *limit)
{
	FILE *file = open_below(root, "/proc/self/mountinfo");
	char line[2 * LINE_CAP], cgroup[PATH_CAP];
	struct hierarchy h;

	while (file && fgets(line, sizeof(line), file))
		if (parse_mount(line, &h) && find_cgroup(root, h.v2, cgroup))
			read_ancestors(root, &h, cgroup, limit);
	if (file)
		(void)fclose(file);
}

static void read_meminfo(const char *root, struct lend_memlimit *limit)
{
	FILE *file = open_below(root, "/proc/meminfo");
	uint64_t kib, sum = 0;
	bool known = false;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		bool available = sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1;

		if (available || sscanf(line, "SwapFree: %" SCNu64, &kib) == 1)
			sum += kib << 10;
		known |= available;
	}
	if (file)
		(void)fclose(file);
	if (known)
		lower_limit(limit, sum, "MemAvailable");
}

struct lend_memlimit lend_memlimit(const char *root)
{
	struct lend_memlimit limit = {.bytes = UINT64_MAX, .name = "nothing"};

	read_cgroups(root, &limit);
	read_meminfo(root, &limit);
	return limit;
}
