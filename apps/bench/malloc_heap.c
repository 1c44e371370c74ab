#include "apps/bench/malloc_heap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/common/options.h"
#include "lend/alloc.h"

enum { FIXED = 1024, FIXED_LEN = 65536 + 64, HOOKS = 9 };

/* Jemalloc's control interface. */
typedef int control(const char *name, void *old, size_t *old_len, void *new, size_t new_len);
static control *je_control;
static unsigned je_arena; /* the arena with our extent hooks */

/* Returns one of FIXED objects of the calling thread (the main thread, or the second one).
 * Successive objects are a cache line further apart than their length, so that objects of a
 * power-of-two length do not share cache sets. */
static void *fixed_take(size_t len)
{
	static _Thread_local char *mine;
	static _Thread_local unsigned i;

	if (!mine) /* not static: the leak sanitizer reads every command's static memory */
		mine = mmap(NULL, (size_t)FIXED * FIXED_LEN, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mine == MAP_FAILED)
		app_die("malloc: no memory for the fixed objects");
	return mine + i++ % FIXED * (len + 64);
}

static void fixed_give(void *p)
{
	(void)p;
}

/* Looks up a function of a library. memcpy, since standard C has no cast from object to function
 * pointers. */
static void load_symbol(void *library, const char *name, void *function)
{
	void *at = dlsym(library, name);

	memcpy(function, &at, sizeof(at));
}

static void load_heap(struct app_heap *heap, void *library, const char *take, const char *give)
{
	load_symbol(library, take, &heap->take);
	load_symbol(library, give, &heap->give);
}

static void enter_hooked(void)
{
	if (je_control("thread.arena", NULL, NULL, &je_arena, sizeof(je_arena)) != 0)
		app_die("jemalloc: no arena for a thread");
}

static void leave_hooked(void)
{
	unsigned first = 0;

	(void)je_control("thread.arena", NULL, NULL, &first, sizeof(first));
}

/* Makes an arena with our own extent hooks: copies of jemalloc's hooks at another address. So
 * jemalloc must call them whenever the arena grows or shrinks. */
static bool open_hooked(void *library)
{
	static void *mine[HOOKS], *given = mine;
	void **theirs = NULL;
	size_t len = sizeof(theirs);

	load_symbol(library, "mallctl", &je_control);
	if (!je_control || je_control("arena.0.extent_hooks", &theirs, &len, NULL, 0) != 0)
		return false;
	memcpy(mine, theirs, sizeof(mine));
	len = sizeof(je_arena);
	return je_control("arenas.create", &je_arena, &len, &given, sizeof(given)) == 0;
}

static void *(*rte_take)(const char *type, size_t len, unsigned align);

static void *rte_take_any(size_t len)
{
	return rte_take(NULL, len, 0);
}

static void open_rte(struct app_heap *heap)
{
	void *library = dlopen("librte_eal.so.23", RTLD_NOW | RTLD_LOCAL);
	int (*init)(int argc, const char **argv);
	char prefix[64];
	const char *argv[] = {
	    "lend",        "--no-huge",     "-m",   "256", "--no-pci", "--no-telemetry",
	    "--no-shconf", "--log-level=1", prefix, NULL};

	snprintf(prefix, sizeof(prefix), "--file-prefix=lend%ld", (long)getpid());
	if (!library)
		return;
	load_symbol(library, "rte_eal_init", &init);
	load_symbol(library, "rte_malloc", &rte_take);
	if (!init || !rte_take || init(sizeof(argv) / sizeof(*argv) - 1, argv) < 0)
		return;
	heap->take = rte_take_any;
	load_symbol(library, "rte_free", &heap->give);
}

#ifdef __SANITIZE_ADDRESS__
enum { MALLOC_IS_OTHERS = 1 }; /* malloc() must be the sanitizer's */
#else
enum { MALLOC_IS_OTHERS = 0 };
#endif

/* Executes this program again with mimalloc preloaded as malloc(), since it is half as fast when
 * loaded later, and with space for the thread-local memory of libraries that are loaded later. */
static void start_anew(char **argv)
{
	static const char mimalloc[] = "libmimalloc.so.2";

	if (MALLOC_IS_OTHERS || getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=32768", 1);
	if (dlopen(mimalloc, RTLD_LAZY | RTLD_LOCAL))
		setenv("LD_PRELOAD", mimalloc, 1);
	execv("/proc/self/exe", argv);
}

void app_heaps_open(struct app_heap heaps[APP_HEAPS], char **argv)
{
	static const struct app_heap table[APP_HEAPS] = {
	    [APP_HEAP_BARE] = {.name = "bare",
			       .take = fixed_take,
			       .give = fixed_give,
			       .is_bare = true},
	    [APP_HEAP_NONE] = {.name = "floor", .take = fixed_take, .give = fixed_give},
	    [APP_HEAP_LEND] = {.name = "lend", .take = lend_malloc, .give = lend_free},
	    [APP_HEAP_GLIBC] = {.name = "glibc", .fix = ""},
	    [APP_HEAP_MIMALLOC] = {.name = "mimalloc", .fix = "apt install libmimalloc2.0"},
	    [APP_HEAP_JEMALLOC] = {.name = "jemalloc", .fix = "apt install libjemalloc2"},
	    [APP_HEAP_HOOKED] = {.name = "jemalloc_hooks", .fix = "apt install libjemalloc2"},
	    [APP_HEAP_RTE] = {.name = "rte_malloc", .fix = "apt install libdpdk-dev"}};
	void *je;

	start_anew(argv);
	memcpy(heaps, table, sizeof(table));
	load_heap(&heaps[APP_HEAP_GLIBC], dlopen("libc.so.6", RTLD_NOW), "malloc", "free");
	load_heap(&heaps[APP_HEAP_MIMALLOC], RTLD_DEFAULT, "mi_malloc", "mi_free");
	je = dlopen("libjemalloc.so.2", RTLD_NOW | RTLD_LOCAL);
	if (je)
		load_heap(&heaps[APP_HEAP_JEMALLOC], je, "malloc", "free");
	if (je && open_hooked(je)) {
		load_heap(&heaps[APP_HEAP_HOOKED], je, "malloc", "free");
		heaps[APP_HEAP_HOOKED].enter = enter_hooked;
		heaps[APP_HEAP_JEMALLOC].enter = leave_hooked;
	}
	open_rte(&heaps[APP_HEAP_RTE]);
}
