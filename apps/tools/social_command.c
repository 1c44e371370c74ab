/* social_command - runs lend-social, a program of its own: its libraries would delay the start of
 * every other command.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/spawn.h"

int app_social(int argc, char **argv)
{
	char path[4096];

	(void)argc;
	if (!app_program_find("lend-social", "", path, sizeof(path)))
		app_bad("not in this build: run scripts/deps.sh, and build lend-social");
	execv(path, argv);
	app_die("%s: %s", path, strerror(errno));
}
