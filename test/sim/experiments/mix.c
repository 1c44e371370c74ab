/* The mixes W1 to W5 of B. Montazeri et al., "Homa: A Receiver-Driven Low-Latency Transport
 * Protocol Using Network Priorities", SIGCOMM 2018. W1 is a model of Facebook's memcached servers
 * (Atikoglu et al. 2012), W2 Google's search, W3 all of Google's RPCs, W4 Facebook's Hadoop (Roy et
 * al. 2015), W5 DCTCP's web search (Alizadeh et al. 2010). The points are from the distributions
 * that the authors published with their simulator, thinned where they are dense. Between two points
 * all lengths are equally likely. W5 counts packets of 1,460 bytes. */
#include "sim/experiments/mix.h"

#include <math.h>
#include <stddef.h>
#include <strings.h>

struct point {
	double bytes, share; /* share of all messages that are no longer than bytes */
};
struct mix {
	const char *name;
	double unit; /* in bytes */
	struct point point[48];
};

static const struct mix mixes[] = {
    {"w1", 1, {{8, .31094},      {11, .41757},      {15, .47},        {30, .50637},
	       {63, .57314},     {103, .64015},     {151, .70222},    {203, .75382},
	       {257, .79546},    {344, .84515},     {448, .88514},    {566, .91544},
	       {736, .94282},    {958, .96319},     {1246, .97739},   {1770, .98896},
	       {2303, .99383},   {3176, .9971},     {5070, .9991},    {9098, .999807},
	       {18896, .999974}, {31059, .9999935}, {60838, .999999}, {100000, 1}}},
    {"w2", 1, {{2, .0756},         {3, .1323},         {8, .1701},          {32, .189},
	       {43, .2577},        {64, .3264},        {128, .3417},        {171, .4028},
	       {256, .4638},       {301, .5978},       {366, .7318},        {427, .8211},
	       {512, .9104},       {683, .9343},       {1024, .9581},       {1575, .9741},
	       {2276, .9839},      {3724, .9939},      {8192, .99842},      {16384, .9989},
	       {32768, .99914},    {65536, .99935},    {131072, .99987},    {262144, .999975},
	       {524288, .9999827}, {912974, .9999913}, {1644453, .9999965}, {3529904, 1}}},
    {"w3", 1, {{2, .2767},         {3, .4612},         {4, .5534},         {7, .6456},
	       {32, .7379},        {47, .775},         {64, .7974},        {102, .8197},
	       {128, .8271},       {186, .8457},       {256, .8569},       {341, .8978},
	       {512, .9387},       {819, .9554},       {1638, .9708},      {2048, .974},
	       {4096, .9814},      {8192, .98982},     {16384, .99563},    {32768, .99726},
	       {65536, .99807},    {131072, .99917},   {262144, .99955},   {524288, .99985},
	       {1005228, .999924}, {1856928, .999962}, {3221790, .999981}, {12158197, 1}}},
    {"w4",
     1,
     {{92, .0074},      {217, .0149},    {271, .0409},    {300, .052},      {326, .1375},
      {376, .2026},     {425, .223},     {480, .2639},    {600, .4591},     {679, .5167},
      {737, .552},      {800, .5762},    {885, .5912},    {1042, .6097},    {1277, .6282},
      {1413, .6394},    {1534, .6468},   {1664, .6673},   {2214, .6747},    {3396, .684},
      {5210, .6933},    {7830, .7082},   {31946, .7212},  {36844, .7305},   {39973, .7398},
      {44260, .7584},   {47050, .7788},  {51046, .816},   {62583, .8234},   {70722, .8327},
      {75180, .842},    {81565, .8717},  {102058, .8885}, {115331, .8978},  {133013, .907},
      {156563, .9164},  {184284, .9257}, {212546, .9349}, {240177, .9442},  {288520, .9535},
      {470507, .9628},  {736642, .9684}, {940700, .9721}, {1769244, .9814}, {2169118, .987},
      {10000000, .987}, {10000000, 1}}},
    {"w5",
     1460,
     {{1, .025},
      {7, .175},
      {15, .2333},
      {20, .3167},
      {34, .4071},
      {53, .53},
      {133, .6},
      {248, .6215},
      {400, .65},
      {667, .7},
      {1333, .8},
      {3333, .9},
      {7001, .9025},
      {20000, 1}}},
};

const struct mix *mix_named(const char *name)
{
	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
		if (strcasecmp(name, mixes[i].name) == 0)
			return &mixes[i];
	return NULL;
}

const char *mix_name(const struct mix *mix)
{
	return mix->name;
}

uint32_t mix_max(const struct mix *mix)
{
	return mix_quantile(mix, 1);
}

uint32_t mix_quantile(const struct mix *mix, double q)
{
	const struct point *p = mix->point;
	double part;

	while (p->share < q && p->share < 1)
		p++;
	if (p == mix->point || p->share <= p[-1].share)
		return (uint32_t)(p->bytes * mix->unit);
	part = (q - p[-1].share) / (p->share - p[-1].share);
	return (uint32_t)lround((p[-1].bytes + part * (p->bytes - p[-1].bytes)) * mix->unit);
}

uint32_t mix_draw(const struct mix *mix, struct lend_rng *rng)
{
	return mix_quantile(mix, (double)(lend_rng_next(rng) >> 11) * 0x1p-53);
}

/* Integrates by the midpoint rule, with finer steps where a step contributes more to the cost. */
double mix_mean(const struct mix *mix, double (*cost)(uint32_t bytes))
{
	enum { STEPS = 64 };
	double sum = cost((uint32_t)(mix->point[0].bytes * mix->unit)) * mix->point[0].share;

	for (const struct point *p = mix->point; p->share < 1; p++)
		for (int i = 0; i < STEPS; i++) {
			double bytes = p->bytes + (i + 0.5) / STEPS * (p[1].bytes - p->bytes);

			sum +=
			    cost((uint32_t)(bytes * mix->unit)) * (p[1].share - p->share) / STEPS;
		}
	return sum;
}
