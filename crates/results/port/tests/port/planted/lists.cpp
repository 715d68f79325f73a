#include <atomic>
#include <emmintrin.h> // PLANTED x86-intrinsic

namespace planted {
template <class T> class List {
public:
	bool less(const char *a, const char *b) const {
		return *a < *b; // PLANTED char-order
	}
	void spin() { _mm_pause(); } // PLANTED x86-pause
};
}
