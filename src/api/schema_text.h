#pragma once

/* schema_text - schemas.json, made part of the program by the build. */
extern const char schema_text[];
