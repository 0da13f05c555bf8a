/* The tests of json_scan once more, on a scanner that is built without SSE2 (see CMakeLists.txt). */
#include "tests/unit/test_json_scan.c"
