#include "apps/common/report_page.h"

#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/html.h"

static void write_style(FILE *out)
{
	fputs("<style>\n", out);
	page_style(out);
	fputs(
	    "body{margin:0;background:var(--bg);color:var(--ink);"
	    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
	    "main{max-width:1280px;margin:0 auto;padding:28px 18px 60px}"
	    "h1{font-size:30px;line-height:1.2;margin:0 0 6px}h2{font-size:20px;margin:38px 0 12px}"
	    "p{max-width:68ch}.soft{color:var(--soft);font-size:14px}.grid{display:grid;gap:16px;"
	    "grid-template-columns:repeat(auto-fit,minmax(min(100%,345px),1fr))}"
	    ".four{grid-template-columns:repeat(auto-fit,minmax(min(100%,220px),1fr))}"
	    ".card{background:var(--card);border:1px solid var(--rule);border-radius:12px;"
	    "padding:16px;min-width:0}.card svg{width:100%;height:auto;display:block}"
	    ".big{font-size:26px;font-weight:650;line-height:1.15}.scroll{overflow-x:auto}"
	    "table{border-collapse:collapse;width:100%;font-size:14px;"
	    "font-variant-numeric:tabular-nums}"
	    "th,td{padding:7px 10px;text-align:right;white-space:nowrap;"
	    "border-bottom:1px solid var(--rule)}"
	    "th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}"
	    "th{color:var(--soft);font-weight:500}"
	    ".dot{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px;"
	    "background:currentColor}.shots{display:grid;gap:10px;"
	    "grid-template-columns:repeat(auto-fill,minmax(max(150px,22%),1fr))}"
	    ".shots img{width:100%;aspect-ratio:3/2;"
	    "object-fit:cover;border-radius:8px;display:block}"
	    "code{font:14px ui-monospace,'DejaVu Sans Mono',monospace;background:var(--card);"
	    "border:1px solid var(--rule);border-radius:6px;padding:1px 6px}\n</style>\n",
	    out);
}

/* Reads the CPU's name from the kernel, for example "AMD EPYC 7xx3"; empty when the kernel does not
 * report one. */
static void cpu_name(char name[96])
{
	FILE *in = fopen("/proc/cpuinfo", "r");
	char line[256];

	name[0] = 0;
	while (in && !name[0] && fgets(line, sizeof(line), in))
		if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
			snprintf(name, 96, "%.90s", strchr(line, ':') + 2);
			name[strcspn(name, "\n")] = 0;
		}
	if (in)
		fclose(in);
}

void report_page_machine(FILE *out)
{
	struct utsname os;
	char cpu[96], date[64];
	time_t now = time(NULL);

	cpu_name(cpu);
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M %Z", localtime(&now));
	page_text(out, cpu);
	fprintf(out, ", %ld CPUs", sysconf(_SC_NPROCESSORS_ONLN));
	if (uname(&os) == 0) {
		fputs(", Linux ", out);
		page_text(out, os.release);
	}
	fprintf(out, ". %s.", date);
}

void report_page_begin(FILE *out, const char *title)
{
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
	      "name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>",
	      out);
	page_text(out, title);
	fputs("</title>\n", out);
	write_style(out);
	fputs("</head><body><main>\n", out);
}

void report_page_end(FILE *out)
{
	fputs("</main></body></html>\n", out);
}
