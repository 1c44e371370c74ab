/* Goal: an address that cannot be opened gives one line of error text with the fix in it.
 * Method: each malformed address; modules that are missing, broken, of another release or no
 * module. Covers: src/io/io.c, src/io/addr.c, src/io/module/module.c,
 * src/io/module/glue/interface.c, src/sys/last_error.c */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <module_interface.h> /* made by CMake */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/io.h"
#include "io/module/module.h"
#include "sys/last_error.h"

Test(open, bad_addresses__are_reported)
{
	static const char *const bad[] = {
	    "",          "udp",    "udp:",     "udp:x", "udp:h:",  "udp:h:99999", "udp::1:3",
	    "udp:[::1]", "udp::5", "udp:[::1", "shm:",  "shm:a/b", "shm:.x",      "tcp:x:1"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct lend_io_config config = {.listen = bad[i]};
		struct lend_io *io;

		cr_assert_eq(lend_io_open(&config, &io), -EINVAL, "%s", bad[i]);
		cr_assert_gt(strlen(lend_why_text()), 10, "%s", bad[i]);
	}
}

Test(open, schemes__are_distinguished)
{
	cr_assert(lend_io_same_scheme("shm:a", "shm:b"));
	cr_assert(lend_io_same_scheme("udp:h:1", "udp:[::1]:2"));
	cr_assert(lend_io_same_scheme("dpdk:ring@1.2.3.4:1", "dpdk:memif@1.2.3.4:1"));
	cr_assert_not(lend_io_same_scheme("shm:a", "udp:h:1"));
	cr_assert_not(lend_io_same_scheme("tcp:a", "tcp:a"));
	cr_assert_not(lend_io_same_scheme(NULL, "shm:a"));
}

Test(open, a_server_that_is_not_there)
{
	struct lend_io_config config = {.peer = "shm:nobody-ever-listens-here"};
	struct lend_io *io;
	uint32_t peer;

	cr_assert_eq(lend_io_open(&config, &io), 0);
	cr_assert_eq(io->ops->resolve(io, config.peer, &peer), -ENOENT);
	cr_assert_not_null(strstr(lend_why_text(), "start it"));
	cr_assert_eq(io->ops->resolve(io, "udp:127.0.0.1:1", &peer), -EINVAL);
	cr_assert_eq(io->ops->resolve(io, "shm:", &peer), -EINVAL);
	io->ops->close(io);
}

static void expect_no_module(const char *fix)
{
	struct lend_io_config config = {.listen = "dpdk:ring@127.0.0.1:0"};
	struct lend_io *io;

	cr_assert_eq(lend_io_open(&config, &io), -ENODEV);
	cr_assert_not_null(strstr(lend_why_text(), fix), "%s", lend_why_text());
}

Test(open, invalid_modules__are_refused)
{
	char folder[] = "/tmp/lend-open-XXXXXX", path[128];
	FILE *file;

	cr_assert_not_null(mkdtemp(folder));
	setenv("LEND_MODULE_DIR", folder, 1);
	expect_no_module("LEND_MODULE_DIR");
	(void)snprintf(path, sizeof(path), "%s/lend_io_dpdk.so", folder);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	(void)fputs("not a library", file);
	(void)fclose(file);
	expect_no_module("does not load");
	(void)unlink(path);
	(void)rmdir(folder);
}

Test(open, module_find__each_failure_has_its_line)
{
	char folder[] = "/tmp/lend-open-XXXXXX", path[128], command[320];
	void *found;

	cr_assert_not_null(mkdtemp(folder));
	setenv("LEND_MODULE_DIR", folder, 1);
	cr_assert_eq(lend_module_find("m.so", "a-package", "malloc", &found), -ENODEV);
	cr_assert_not_null(strstr(lend_why_text(), "a-package"), "%s", lend_why_text());
	(void)snprintf(path, sizeof(path), "%s/m.so", folder);
	cr_assert_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	cr_assert_eq(lend_module_find("m.so", "a-package", "malloc", &found), -ENODEV);
	cr_assert_not_null(strstr(lend_why_text(), "does not load"), "%s", lend_why_text());
	(void)snprintf(command, sizeof(command), "cp %s/lend_seal.so %s/n.so", LEND_BUILD_DIR,
		       folder);
	if (system(command) == 0) {
		cr_assert_eq(lend_module_find("n.so", "a-package", "lend_none", &found), -ENODEV);
		cr_assert_not_null(strstr(lend_why_text(), "release"), "%s", lend_why_text());
		cr_assert_eq(lend_module_find("n.so", "a-package", "lend_seal_ops", &found), 0);
		(void)snprintf(command, sizeof(command), "sed s/%s/%064x/ %s/n.so >%s/o.so",
			       LEND_MODULE_INTERFACE, 0, folder, folder);
		cr_assert_eq(system(command), 0);
		cr_assert_eq(lend_module_find("o.so", "a-package", "lend_seal_ops", &found),
			     -ENODEV);
		cr_assert_not_null(strstr(lend_why_text(), "release"), "%s", lend_why_text());
	}
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
}

enum { OTHER_USER = 65534 };
static char elsewhere[32];

/* Serves at shm:elsewhere, in a runtime folder of its own, until it is killed. */
static pid_t serve_elsewhere(const char *folder)
{
	struct lend_io_config config = {.listen = elsewhere};
	struct lend_io *io;
	int ready[2];
	pid_t child;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv("XDG_RUNTIME_DIR", folder, 1);
		if (lend_io_open(&config, &io) == 0 && write(ready[1], "r", 1) == 1)
			(void)pause();
		_exit(1);
	}
	(void)close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	return child;
}

/* Stores the error text that a client of that user with that folder gets. */
static void dial_as(uid_t uid, const char *folder, char *line, size_t cap)
{
	struct lend_io_config config = {.peer = elsewhere};
	struct lend_io *io;
	uint32_t peer;
	int said[2];

	cr_assert_eq(pipe(said), 0);
	memset(line, 0, cap);
	if (fork() == 0) {
		setenv("XDG_RUNTIME_DIR", folder, 1);
		if (uid != geteuid() && setuid(uid) < 0)
			_exit(1);
		if (lend_io_open(&config, &io) == 0 && io->ops->resolve(io, config.peer, &peer) < 0)
			(void)!write(said[1], lend_why_text(), strlen(lend_why_text()));
		_exit(0);
	}
	(void)close(said[1]);
	cr_assert_gt(read(said[0], line, cap - 1), 0);
	(void)close(said[0]);
	(void)wait(NULL);
}

Test(open, a_server_of_another_user_or_folder)
{
	char theirs[] = "/tmp/lend-open-XXXXXX", ours[] = "/tmp/lend-open-XXXXXX", line[512],
	     command[96];
	pid_t server;

	cr_assert(mkdtemp(theirs) && mkdtemp(ours) && chmod(theirs, 0755) == 0 &&
		  chmod(ours, 0777) == 0);
	(void)snprintf(elsewhere, sizeof(elsewhere), "shm:elsewhere%d", (int)getpid());
	server = serve_elsewhere(theirs);
	dial_as(geteuid(), ours, line, sizeof(line));
	cr_assert(strstr(line, "use its XDG_RUNTIME_DIR") && strstr(line, theirs), "%s", line);
	if (geteuid() == 0) {
		(void)snprintf(command, sizeof(command), "rm -r %s/lend", ours);
		cr_assert_eq(system(command), 0);
		dial_as(OTHER_USER, ours, line, sizeof(line));
		cr_assert(strstr(line, "another user's") && strstr(line, theirs), "%s", line);
		dial_as(OTHER_USER, theirs, line, sizeof(line));
		cr_assert(strstr(line, "permission denied") && strstr(line, "user 0"), "%s", line);
	}
	(void)kill(server, SIGKILL);
	(void)waitpid(server, NULL, 0);
	(void)snprintf(command, sizeof(command), "rm -r %s %s", ours, theirs);
	cr_assert_eq(system(command), 0);
}
