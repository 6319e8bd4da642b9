/** Types of the packets that are not there, for tests in TypeScript. */
export function captureHead(): Buffer;
export function captured(number: number, comment: string, lost?: number): Buffer;
export function captureEnd(lost: number): Buffer;
