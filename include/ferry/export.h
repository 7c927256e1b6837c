/* FERRY_API marks what Ferry's shared libraries export; whatever is not marked stays inside them.

   For C and C++. A class is marked where its type has to be the same on both sides of the library's boundary: what is
   thrown and caught, what is asked by dynamic_cast. Such a class has a virtual function outside of the header, so that
   its type is made once, in the library. Otherwise functions are marked, not types: then inline functions, which every
   compiler setting leaves behind differently, are no part of the ABI. */
#ifndef FERRY_EXPORT_H_
#define FERRY_EXPORT_H_

#define FERRY_API __attribute__((visibility("default")))

#endif /* FERRY_EXPORT_H_ */
