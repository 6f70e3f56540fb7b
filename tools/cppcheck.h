/* What cppcheck, which reads no system headers, must know of them. */
#define json_array_foreach(array, index, value) \
    for (index = 0; (value = json_array_get(array, index)) != 0; index++)
#define json_object_foreach(object, key, value) \
    for (key = any_key(object); (value = json_object_get(object, key)) != 0;)
#define json_object_foreach_safe(object, next, key, value) \
    for (next = 0, key = any_key(object); \
         (value = json_object_get(object, key)) != 0;)
#define ElfW(type) Elf64_##type
