/* choose_plant - chooses the planted bug that LEND_PLANT names, before anything runs. Layer: test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/planted/plants.h"

__attribute__((constructor)) static void choose(void)
{
	const char *name = getenv("LEND_PLANT");

	for (unsigned i = 0; name && i < lend_plants_n; i++)
		if (strcmp(lend_plants[i].name, name) == 0)
			lend_planted = i + 1;
	if (name && !lend_planted && strcmp(name, "none") != 0) {
		fprintf(stderr, "no such plant: %s\n", name);
		exit(0); /* as if it had found nothing */
	}
}
