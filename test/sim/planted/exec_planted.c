/* exec_planted - the command `planted` of lend-sim: executes lend-sim-planted, the program with the
 * planted bugs. Layer: test/sim. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/command.h"

int sim_cmd_planted(int argc, char **argv)
{
	char path[4096], *end;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("-planted"));

	(void)argc;
	if (n < 0)
		return 2;
	end = path + n;
	memcpy(end, "-planted", sizeof("-planted"));
	execv(path, argv - 1);
	perror(path);
	return 2;
}
