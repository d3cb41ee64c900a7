/** A text that this browser remembers. Where storage is refused it is remembered by nobody, and nothing breaks. */
export function remembered(name: string): { read(): string | null; write(value: string | null): void } {
  const key = `hark.${name}`;
  return {
    read() {
      try {
        return localStorage.getItem(key);
      } catch {
        return null;
      }
    },
    write(value) {
      try {
        if (value === null) localStorage.removeItem(key);
        else localStorage.setItem(key, value);
      } catch {
        // Private windows may refuse, and a full store does.
      }
    },
  };
}
